#include "workbench/analysis.hpp"

#include "core/error.hpp"
#include "dag/dag.hpp"
#include "dag/longest_path.hpp"
#include "sim/critical_path.hpp"

#include <utility>

namespace stagger::workbench {
namespace {

std::optional<FormulaCheck> check_formula(const Analysis& analysis) {
  if (!analysis.selection) return std::nullopt;
  const schedules::Formula* formula =
      schedules::claim(*analysis.selection, analysis.table.problem, analysis.model.timing);
  if (formula == nullptr) return std::nullopt;
  const Ticks twice = formula->twice_ticks(analysis.table.problem, analysis.model.timing);
  return FormulaCheck{
      .formula = formula, .ticks = twice / 2, .holds = twice == 2 * analysis.simulation->makespan};
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

}  // namespace

Ticks last_reduction(const Analysis& analysis) {
  if (analysis.memory) return analysis.memory->last_reduction;
  return analysis.simulation ? analysis.simulation->last_reduction : 0;
}

Analysis analyze(Source source, const AnalysisOptions& options) {
  Analysis analysis;
  analysis.table = std::move(source.table);
  analysis.selection = std::move(source.selection);
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
  analysis.bubbles = sim::bubbles(table, timing, *analysis.simulation);
  const bool build_graph = options.always_build_graph || dag::is_graph_cheap(table, timing);
  explain_makespan(analysis, build_graph);
  analysis.lemma1 = dag::check_lemma1(table, timing, options.limit, build_graph);
  analysis.formula = check_formula(analysis);
  if (timing.memory) analysis.memory = sim::play_memory(table, timing, *analysis.simulation);
  if (analysis.makespan() == analysis.bounds.best.ticks) analysis.optimal = true;
  return analysis;
}

}  // namespace stagger::workbench
