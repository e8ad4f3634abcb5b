#include "cli/calibration_set.hpp"

#include "dag/verify.hpp"
#include "schedules/schedule.hpp"

#include <algorithm>
#include <utility>

namespace stagger::cli {
namespace {

struct Case {
  const char* mask;
  std::int64_t kv_tiles;
  std::int64_t chains_an_sm;
};
constexpr Case kCases[] = {{"full", 5, 2},   {"full", 12, 2},   {"full", 24, 1},
                           {"causal", 6, 2}, {"causal", 12, 2}, {"causal", 28, 1}};

Problem problem_of(const Case& of, const TileShape& tile, std::int32_t sms) {
  const std::int64_t tokens = of.kv_tiles * tile.kv;
  // An even number of heads, so that symmetric shift fills its SMs.
  const std::int64_t heads =
      2 * ((of.chains_an_sm * sms + 2 * of.kv_tiles - 1) / (2 * of.kv_tiles));
  return make_problem(make_mask(of.mask), {tokens, tokens}, tile, heads,
                      std::min<std::int64_t>(sms, heads * of.kv_tiles));
}

}  // namespace

std::vector<Table> calibration_set(const TileShape& tile, std::int32_t sms) {
  std::vector<Table> tables;
  for (const Case& of : kCases) {
    const Problem problem = problem_of(of, tile, sms);
    for (const schedules::Schedule* schedule : schedules::all()) {
      const schedules::Selection selection = schedules::select(schedule->name);
      if (schedule->searches || schedule->unsupported(problem, selection.parameters)) continue;
      Table table = schedules::build(selection, problem);
      if (dag::verify(table, {}).verdict == dag::Verdict::ok) tables.push_back(std::move(table));
    }
  }
  return tables;
}

}  // namespace stagger::cli
