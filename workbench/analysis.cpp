#include "workbench/analysis.hpp"

#include "core/error.hpp"
#include "dag/dag.hpp"
#include "dag/longest_path.hpp"
#include "sim/critical_path.hpp"
#include "sim/timeline.hpp"

#include <algorithm>
#include <utility>

namespace stagger::workbench {
namespace {

constexpr std::int64_t kDrawnTasks = 2'000'000;  ///< about 300 MB of intervals

std::optional<FormulaCheck> check_formula(const Analysis& analysis) {
  if (!analysis.selection) return std::nullopt;
  const schedules::Formula* formula =
      schedules::claim(*analysis.selection, analysis.table.problem, analysis.model.timing);
  if (formula == nullptr) return std::nullopt;
  const Ticks twice = formula->twice_ticks(analysis.table.problem, analysis.model.timing);
  return FormulaCheck{
      .formula = formula, .ticks = twice / 2, .holds = twice == 2 * analysis.makespan};
}

/// The two computations of the makespan that share no code.
void explain_makespan(Analysis& analysis, bool build_graph) {
  const sim::Simulation& simulation = *analysis.simulation;
  if (!build_graph) {
    analysis.critical_path = sim::critical_path(analysis.table, analysis.model.timing, simulation);
    return;
  }
  const auto graph = dag::build(analysis.table, analysis.model.timing);
  STAGGER_EXPECTS(graph.has_value());
  const auto times = dag::path_times(*graph);
  STAGGER_EXPECTS(times.has_value());
  STAGGER_EXPECTS(times->length == simulation.makespan);
  analysis.longest_path = times->length;
  analysis.critical_path = dag::critical_path(analysis.table, *graph, *times);
}

/// What the memory makes of what was simulated.
void add_memory(Analysis& analysis) {
  analysis.memory = sim::play_memory(analysis.table, analysis.model.timing, *analysis.simulation);
  analysis.makespan = analysis.memory->makespan;
  analysis.last_reduction = analysis.memory->last_reduction;
}

/// Whether a table can be played as far as it goes: its ranks are ranks, even if it hangs.
bool playable(const dag::Verification& verification) {
  return std::ranges::all_of(verification.findings, [](const dag::Finding& finding) {
    return finding.kind == dag::FindingKind::deadlock ||
           finding.kind == dag::FindingKind::co_residency;
  });
}

}  // namespace

Gap Summary::gap() const {
  const sim::LastSm& last = bubbles.last;
  return {.packing = last.busy - bounds.best.ticks,
          .contention = last.order,
          .startup = last.startup,
          .memory = makespan - phases};
}

double Summary::bubble_fraction() const {
  const Ticks all = bubbles.total() + bubbles.busy;
  return all == 0 ? 0.0 : static_cast<double>(bubbles.total()) / static_cast<double>(all);
}

Source source_of(schedules::Selection selection, const Problem& problem, TimeModel model) {
  Table table = schedules::build(selection, problem, model.timing);
  return {.table = std::move(table), .model = std::move(model), .selection = std::move(selection)};
}

Analysis analyze(Source source, const AnalysisOptions& options) {
  Analysis analysis;
  analysis.name = source.table.name;
  analysis.dispatch = source.table.dispatch;
  analysis.selection = std::move(source.selection);
  analysis.table = std::move(source.table);
  analysis.model = std::move(source.model);
  const Timing& timing = analysis.model.timing;
  const Table& table = analysis.table;
  const Problem& problem = table.problem;
  check_timing(timing, problem);
  analysis.verification = dag::verify(table, timing, options.lock_values, options.limit);
  analysis.bounds = dag::lower_bounds(problem, timing, table.dispatch);
  if (!analysis.ok()) return analysis;

  analysis.simulation = sim::simulate(table, timing);
  STAGGER_EXPECTS(analysis.simulation->complete);
  analysis.phases = analysis.makespan = analysis.simulation->makespan;
  analysis.last_reduction = analysis.simulation->last_reduction;
  analysis.bubbles = sim::bubbles(table, timing, *analysis.simulation);
  const bool build_graph = options.always_build_graph || dag::is_graph_cheap(table, timing);
  explain_makespan(analysis, build_graph);
  analysis.lemma1 = dag::check_lemma1(table, timing, options.limit, build_graph);
  analysis.formula = check_formula(analysis);
  if (timing.memory) add_memory(analysis);
  if (analysis.makespan == analysis.bounds.best.ticks) analysis.optimal = true;
  return analysis;
}

Timeline timeline_of(const Analysis& analysis) {
  const Problem& problem = analysis.table.problem;
  if (!playable(analysis.verification)) {
    throw Error(ErrorKind::usage,
                analysis.name + ": an invalid table has no timeline; see `stagger verify`");
  }
  if (problem.tasks() > kDrawnTasks) {
    throw Error(ErrorKind::limit, std::to_string(problem.tasks()) + " tasks; at most " +
                                      std::to_string(kDrawnTasks) + " are drawn or listed");
  }
  const sim::Simulation simulation = analysis.simulation
                                         ? *analysis.simulation
                                         : sim::simulate(analysis.table, analysis.model.timing);
  Timeline timeline =
      sim::timeline(analysis.table, analysis.model.timing, simulation, analysis.critical_path);
  timeline.clock = analysis.model.unit();
  timeline.lower_bound = analysis.bounds.best.ticks;
  timeline.title = analysis.name + ": " + describe(problem);
  if (!simulation.complete) timeline.title += " (deadlock)";
  return timeline;
}

}  // namespace stagger::workbench
