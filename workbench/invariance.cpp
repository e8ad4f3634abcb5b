#include "workbench/invariance.hpp"

#include "core/error.hpp"
#include "core/order_digest.hpp"
#include "workbench/stagger.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace stagger::workbench {
namespace {

constexpr std::int64_t kHeadDim = 64;  ///< where nothing says another
constexpr std::int64_t kProbeTiles = 8;
constexpr std::int64_t kProbeHeads = 5;

/// A KV head alone, on as many SMs as it has KV tiles: what depends on neither heads nor SMs.
Problem of_one_kv_head(Problem problem) {
  problem.heads = problem.group();
  problem.heads_kv = 1;
  problem.sms = std::max(problem.kv_tiles(), 1);
  return problem;
}

/// Whether a table whose heads have these orders is batch invariant.
bool is_invariant_with(const HeadOrders& orders, const schedules::Selection& selection,
                       const Table& table, const Timing& timing) {
  if (!table.problem.grids.all_alike() || orders.distinct > 1) return false;
  const Problem one = of_one_kv_head(table.problem);
  if (schedules::why_unsupported(selection, one)) return false;
  const HeadOrders own = head_orders(schedules::build(selection, one, timing));
  return own.distinct <= 1 && own.first == orders.first;
}

/// The numbers of SMs on which a schedule that goes by waves may have one order, the most first.
std::vector<std::int64_t> steady_sms(const Problem& problem) {
  const std::int64_t tiles = problem.kv_tiles();
  std::vector<std::int64_t> counts = {problem.sms};
  for (const std::int64_t units : {(tiles + 1) / 2, tiles}) {
    if (units > 0 && units <= problem.sms) counts.push_back(problem.sms / units * units);
  }
  std::ranges::sort(counts, std::greater());
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  return counts;
}

/// Whether a schedule is batch invariant on so many SMs for every number of heads that it applies
/// to; absent if it applies to none.
std::optional<bool> probed(const schedules::Selection& selection, std::int64_t sms) {
  std::optional<bool> holds;
  for (const char* const mask : {"causal", "full"}) {
    for (std::int64_t heads = 1; heads <= kProbeHeads; ++heads) {
      const Problem problem =
          make_problem(make_mask(mask), {kProbeTiles, kProbeTiles}, {}, heads, sms);
      if (schedules::why_unsupported(selection, problem)) continue;
      holds = holds.value_or(true) &&
              is_batch_invariant(selection, schedules::build(selection, problem));
    }
  }
  return holds;
}

}  // namespace

bool is_batch_invariant(const schedules::Selection& selection, const Table& table,
                        const Timing& timing) {
  return is_invariant_with(head_orders(table), selection, table, timing);
}

std::optional<Table> invariant_table(const schedules::Selection& selection, const Problem& problem,
                                     const Timing& timing) {
  for (const std::int64_t sms : steady_sms(problem)) {
    Problem fewer = problem;
    fewer.sms = static_cast<std::int32_t>(sms);
    if (schedules::why_unsupported(selection, fewer)) continue;
    Table table = schedules::build(selection, fewer, timing);
    if (is_batch_invariant(selection, table, timing)) return table;
  }
  return std::nullopt;
}

Source invariant_source_of(schedules::Selection selection, const Problem& problem,
                           TimeModel model) {
  expect_searchable(selection, problem);
  std::optional<Table> table = invariant_table(selection, problem, model.timing);
  if (!table) {
    throw Error(ErrorKind::unsupported,
                selection.text + ": " + why_not_invariant(selection, problem));
  }
  return {.table = *std::move(table), .model = std::move(model), .selection = std::move(selection)};
}

std::string why_not_invariant(const schedules::Selection& selection, const Problem& problem) {
  if (auto why = schedules::why_unsupported(selection, problem)) return *std::move(why);
  if (selection.schedule->searches()) {
    return "what a search finds moves with heads, SMs and durations";
  }
  if (!problem.grids.all_alike()) {
    return "heads have masks of their own, so no head's order is every head's";
  }
  if (const auto why = schedules::why_unsupported(selection, of_one_kv_head(problem))) {
    return "a KV head alone has no table to be like: " + *why;
  }
  return "the order of heads moves with their number or the SMs on " + std::to_string(problem.sms) +
         (steady_sms(problem).size() > 1 ? ", and on fewer" : "") +
         "; `stagger list schedules` says whose does not";
}

OrderReport orders_of(const Analysis& analysis, std::int64_t head_dim) {
  const Table& table = analysis.table;
  const auto& selection = analysis.selection;
  OrderReport report{.head_dim = head_dim};
  const HeadOrders orders = head_orders(table);
  report.digest = order_digest(table, orders, STAGGER_NUMERICS, report.head_dim);
  report.distinct = orders.distinct;
  if (!selection || !table.problem.grids.all_alike()) return report;
  report.invariant = is_invariant_with(orders, *selection, table, analysis.model.timing);
  if (*report.invariant || selection->schedule->searches()) return report;
  if (const auto fewer = invariant_table(*selection, table.problem)) {
    report.sms = fewer->problem.sms;
  }
  return report;
}

OrderReport orders_of(const Analysis& analysis) {
  const std::int64_t profiled = analysis.model.kernel.head_dim;
  return orders_of(analysis, profiled > 0 ? profiled : kHeadDim);
}

std::optional<SteadySms> steady_sms_of(const schedules::Schedule& schedule) {
  if (schedule.searches()) return std::nullopt;
  const schedules::Selection selection = schedules::select(schedule.name);
  SteadySms found{.kv_tiles = kProbeTiles};
  for (std::int64_t sms = 1; sms <= 2 * kProbeTiles; ++sms) {
    const std::optional<bool> holds = probed(selection, sms);
    if (!holds) continue;
    found.applies.push_back(sms);
    if (*holds) found.invariant.push_back(sms);
  }
  return found;
}

}  // namespace stagger::workbench
