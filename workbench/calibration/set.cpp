#include "workbench/calibration/set.hpp"

#include "core/checked.hpp"
#include "dag/verify.hpp"
#include "schedules/schedule.hpp"
#include "workbench/calibration/irregular.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace stagger::workbench {
namespace {

struct Case {
  const char* mask;
  std::int64_t kv_tiles;
  std::int64_t chains_an_sm;
};
constexpr Case kCases[] = {{"full", 5, 2},   {"full", 12, 2},   {"full", 24, 1},
                           {"causal", 6, 2}, {"causal", 12, 2}, {"causal", 28, 1}};

/// Tables of each problem that no rule orders: where an SM reduces twice in a row or waits for
/// another is not in step there, which tells a reduction's length from a lock's latency.
constexpr std::uint64_t kIrregular = 3;

/// A mask of so many tokens. Of these two many tiles are partial, which cost more or less than full
/// ones, and chains are short: causal masks tell little of either.
std::string window(std::int64_t tokens) {
  return "sliding:left=" + std::to_string(tokens / 7) + ",right=0";
}
std::string documents(std::int64_t tokens) {
  const std::int64_t lengths[] = {tokens / 5, tokens / 17, tokens / 3, tokens / 9};
  std::string words = "document:causal=false,lengths=";
  std::int64_t rest = tokens;
  for (const std::int64_t length : lengths) {
    words += std::to_string(length) + "+";
    rest -= length;
  }
  return words + std::to_string(rest);
}
std::string full(std::int64_t /*tokens*/) {
  return "full";
}
std::string causal(std::int64_t /*tokens*/) {
  return "causal";
}

struct LargeCase {
  std::string (*mask)(std::int64_t tokens);
  std::int64_t kv_tiles;
  std::int64_t q_elements;
};
constexpr LargeCase kLargeCases[] = {{full, 6, 24 << 20},    {causal, 10, 48 << 20},
                                     {full, 20, 24 << 20},   {causal, 28, 24 << 20},
                                     {window, 20, 24 << 20}, {documents, 22, 24 << 20}};
/// From those in which all SMs reduce all the time to those in which few do.
constexpr const char* kLargeOrders[] = {
    "shift", "symmetric-shift", "spt", "lpt-ascending", "descending", "lpt-descending:swizzle=8"};

/// An even number of heads, so that symmetric shift fills its SMs: at least `heads`.
Problem problem_of(const std::string& mask, std::int64_t kv_tiles, std::int64_t heads,
                   const TileShape& tile, std::int32_t sms) {
  const std::int64_t tokens = kv_tiles * tile.kv;
  const std::int64_t even = (heads + 1) / 2 * 2;
  return make_problem(parse_mask(mask), {tokens, tokens}, tile, even,
                      std::min<std::int64_t>(sms, even * kv_tiles));
}

/// Adds the schedule's table if it applies and would run.
void add_table(std::vector<Table>& tables, const Problem& problem, const char* name) {
  const schedules::Selection selection = schedules::select(name);
  if (schedules::why_unsupported(selection, problem)) return;
  Table table = schedules::build(selection, problem);
  if (dag::verify(table, {}).verdict == dag::Verdict::ok) tables.push_back(std::move(table));
}

}  // namespace

std::vector<Table> calibration_set(const TileShape& tile, std::int32_t sms) {
  std::vector<Table> tables;
  for (const Case& made : kCases) {
    const std::int64_t heads = (made.chains_an_sm * sms + made.kv_tiles - 1) / made.kv_tiles;
    const Problem problem = problem_of(made.mask, made.kv_tiles, heads, tile, sms);
    for (const schedules::Schedule* schedule : schedules::all()) {
      if (!schedule->searches()) add_table(tables, problem, schedule->name);
    }
    for (std::uint64_t seed = 1; seed <= kIrregular; ++seed)
      tables.push_back(irregular_table(problem, seed));
  }
  return tables;
}

std::vector<Table> large_calibration_set(const TileShape& tile, std::int32_t sms,
                                         std::int64_t head_dim) {
  std::vector<Table> tables;
  for (const LargeCase& made : kLargeCases) {
    const std::int64_t tokens = made.kv_tiles * tile.kv;
    const std::int64_t heads = (made.q_elements + tokens * head_dim - 1) / (tokens * head_dim);
    const Problem problem = problem_of(made.mask(tokens), made.kv_tiles, heads, tile, sms);
    for (const char* name : kLargeOrders)
      add_table(tables, problem, name);
  }
  return tables;
}

std::vector<Table> parts_calibration_set(const TileShape& tile, std::int32_t sms) {
  constexpr std::int64_t kKvTiles = 16;
  constexpr std::int64_t kGroup = 8;
  std::vector<Table> tables;
  for (const std::int64_t chains_an_sm : {2, 8}) {
    const std::int64_t kv_heads = divide_up(chains_an_sm * sms, kKvTiles * kGroup);
    const Problem problem = make_problem(
        parse_mask("causal"), {kKvTiles * tile.kv, kKvTiles * tile.kv}, tile, kGroup * kv_heads,
        sms, {.heads_kv = kv_heads, .span = 1, .combine = Combine::ordered});
    for (const char* name : {"spt", "lpt-descending"})
      add_table(tables, problem, name);
  }
  return tables;
}

}  // namespace stagger::workbench
