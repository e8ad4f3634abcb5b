#include "workbench/formula_sweep.hpp"

#include "core/error.hpp"
#include "dag/dag.hpp"
#include "dag/longest_path.hpp"
#include "sim/simulate.hpp"

#include <string>

namespace stagger::workbench {
namespace {

/// The makespan by the graph and by the simulator, which must agree.
Ticks makespan_of(const Table& table, const Timing& timing) {
  const Ticks makespan = sim::simulate(table, timing).makespan;
  const auto graph = dag::build(table, timing);
  STAGGER_EXPECTS(graph.has_value());
  const auto times = dag::path_times(*graph);
  STAGGER_EXPECTS(times.has_value() && times->length == makespan);
  return makespan;
}

void check(const schedules::Selection& selection, const SweptCase& at, const Problem& problem,
           SweptFormula& result) {
  Timing timing;
  timing.compute = at.compute;
  timing.reduce = at.reduce;
  const bool inside = schedules::in_domain(*result.formula, problem, timing);
  Tally& tally = inside ? result.inside : result.outside;
  const Ticks makespan = makespan_of(schedules::build(selection, problem), timing);
  const Ticks twice = schedules::twice_ticks(*result.formula, problem, timing);
  ++tally.checked;
  if (twice == 2 * makespan) {
    ++tally.holds;
  } else if (!tally.first_failure) {
    tally.first_failure = {at, twice, makespan};
  }
}

void sweep_costs(const SweepRequest& request, const schedules::Selection& selection,
                 const Problem& problem, SweptCase at, SweptFormula& result) {
  const auto& [c_first, c_last] = request.compute;
  const auto& [r_first, r_last] = request.reduce;
  for (at.compute = c_first; at.compute <= c_last; ++at.compute) {
    for (at.reduce = r_first; at.reduce <= r_last; ++at.reduce) {
      if (request.stop && request.stop()) return;
      if (at.compute + at.reduce > 0) check(selection, at, problem, result);
    }
  }
}

void sweep_masks(const SweepRequest& request, const schedules::Selection& selection,
                 const SweptCase& at, SweptFormula& result) {
  for (const char* mask : {"full", "causal"}) {
    if (request.stop && request.stop()) return;
    const Problem problem =
        make_problem(make_mask(mask), {at.n_q, at.n_kv}, {}, at.heads * at.group, 0,
                     {.heads_kv = at.heads, .span = at.group});
    if (!result.formula->shape(problem.common_grid())) continue;
    if (schedules::why_unsupported(selection, problem)) continue;
    sweep_costs(request, selection, problem, at, result);
    return;  // 1 x 1 is both
  }
}

void sweep_groups(const SweepRequest& request, const schedules::Selection& selection, SweptCase at,
                  SweptFormula& result) {
  for (at.group = request.group.first; at.group <= request.group.last; ++at.group)
    sweep_masks(request, selection, at, result);
}

void sweep(const SweepRequest& request, SweptFormula& result) {
  const schedules::Selection selection = schedules::select(result.schedule->name);
  const auto& [first, last] = request.n;
  for (std::int64_t n_kv = first; n_kv <= last; ++n_kv) {
    if (request.progress) {
      request.progress(static_cast<double>(n_kv - first) / static_cast<double>(request.n.size()));
    }
    for (std::int64_t n_q = first; n_q <= last; ++n_q) {
      for (std::int64_t heads = request.heads.first; heads <= request.heads.last; ++heads)
        sweep_groups(request, selection, {.n_kv = n_kv, .n_q = n_q, .heads = heads}, result);
    }
  }
}

void check_size(const SweepRequest& request) {
  constexpr std::int64_t kMostCases = 10'000'000;
  const __int128 cases = __int128{request.n.size()} * request.n.size() * request.heads.size() *
                         request.group.size() * request.compute.size() * request.reduce.size();
  if (cases <= kMostCases) return;
  throw Error(ErrorKind::limit,
              "the ranges make more than " + std::to_string(kMostCases) + " cases");
}

}  // namespace

std::vector<SweptFormula> sweep_formulas(const SweepRequest& request) {
  check_size(request);
  std::vector<SweptFormula> results;
  for (const schedules::Schedule* schedule : schedules::all()) {
    for (const schedules::Formula& formula : schedule->formulas) {
      results.push_back({.schedule = schedule, .formula = &formula, .inside = {}, .outside = {}});
      sweep(request, results.back());
    }
  }
  return results;
}

}  // namespace stagger::workbench
