#include "workbench/analysis.hpp"

#include "core/as_played.hpp"
#include "core/beside.hpp"
#include "core/error.hpp"
#include "core/limits.hpp"
#include "dag/dag.hpp"
#include "dag/longest_path.hpp"
#include "sim/critical_path.hpp"
#include "sim/timeline.hpp"

#include <algorithm>
#include <future>
#include <utility>

namespace stagger::workbench {
namespace {

constexpr std::size_t kMostSteps = 100'000;      ///< of a critical path that is kept
constexpr std::int64_t kDrawnTasks = 2'000'000;  ///< about 300 MB of intervals

std::optional<FormulaCheck> check_formula(const Analysis& analysis) {
  if (!analysis.selection) return std::nullopt;
  const schedules::Formula* formula =
      schedules::claim(*analysis.selection, analysis.table.problem, analysis.model.timing);
  if (formula == nullptr) return std::nullopt;
  const Problem& problem = analysis.table.problem;
  const Ticks twice = schedules::twice_ticks(*formula, problem, analysis.model.timing);
  return FormulaCheck{.formula = formula,
                      .text = schedules::text_of(*formula, problem),
                      .ticks = twice / 2,
                      .holds = twice == 2 * analysis.makespan};
}

/// The two computations of the makespan that share no code.
void explain_makespan(Analysis& analysis, const AsPlayed& played, bool build_graph) {
  const sim::Simulation& simulation = *analysis.simulation;
  if (!build_graph && std::ssize(played.table().slots) > kDrawnTasks) {
    analysis.critical_path.length =
        simulation.makespan;  // its steps alone would be 80 bytes a task
    return;
  }
  if (!build_graph) {
    analysis.critical_path = sim::critical_path(played.table(), played.timing(), simulation);
    // Written as JSON they take some kilobytes each, and nobody reads so many.
    if (analysis.critical_path.steps.size() > kMostSteps) analysis.critical_path.steps = {};
    return;
  }
  const auto graph = dag::build(played.table(), played.timing());
  STAGGER_EXPECTS(graph.has_value());
  const auto times = dag::path_times(*graph);
  STAGGER_EXPECTS(times.has_value());
  STAGGER_EXPECTS(times->length == simulation.makespan);
  analysis.longest_path = times->length;
  analysis.critical_path = dag::critical_path(played.table(), *graph, *times);
}

/// The task that a step is of.
void name_task(Task& step, std::int32_t steps) {
  step.q.value /= steps;
}

/// Names the tasks of what was found out of their steps.
void name_tasks(Analysis& analysis) {
  const std::int32_t steps = analysis.model.timing.steps;
  if (steps == 1) return;
  for (CriticalStep& critical : analysis.critical_path.steps)
    name_task(critical.task, steps);
  const auto name_all = [&](std::vector<dag::DependencyEdge>& edges) {
    for (dag::DependencyEdge& edge : edges) {
      name_task(edge.from, steps);
      name_task(edge.to, steps);
    }
  };
  name_all(analysis.lemma1.violations);
  if (analysis.lemma1.harmful) name_all(*analysis.lemma1.harmful);
}

/// What the memory makes of what was simulated.
void add_memory(Analysis& analysis, const sim::MemoryPlay& memory) {
  analysis.memory = memory;
  analysis.makespan = memory.makespan;
  analysis.last_reduction = memory.last_reduction;
}

}  // namespace

bool Summary::ordered() const {
  return std::ranges::all_of(verification.findings, [](const dag::Finding& finding) {
    return finding.kind == dag::FindingKind::deadlock ||
           finding.kind == dag::FindingKind::co_residency;
  });
}

namespace {

void expect_few(std::int64_t tasks) {
  if (tasks <= kDrawnTasks) return;
  throw Error(ErrorKind::limit, std::to_string(tasks) + " tasks; at most " +
                                    std::to_string(kDrawnTasks) + " are drawn or listed");
}

Timeline timeline_of(const AsPlayed& played) {
  const Table& table = played.table();
  const Timing& timing = played.timing();
  return sim::timeline(table, timing, sim::simulate(table, timing), {});
}

/// Of what is played, step by step. With the memory there is no critical path of phases alone.
Timeline timeline_in_steps(const Analysis& analysis) {
  if (!analysis.simulation) {
    const Table existing = existing_tasks(analysis.table);
    return timeline_of(AsPlayed(existing, analysis.model.timing));
  }
  const AsPlayed played(analysis.table, analysis.model.timing);
  const Table& table = played.table();
  const Timing& timing = played.timing();
  if (analysis.memory) {
    return sim::timeline(table, timing, sim::simulate_with_memory(table, timing), {});
  }
  if (analysis.model.timing.steps == 1) {
    return sim::timeline(table, timing, *analysis.simulation, analysis.critical_path);
  }
  const CriticalPath path = sim::critical_path(table, timing, *analysis.simulation);
  return sim::timeline(table, timing, *analysis.simulation, path);
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

void expect_searchable(const schedules::Selection& selection, const Problem& problem) {
  constexpr std::int64_t kMostSearched = kMaxTasks / 3 * 2;  // at half as many bytes again
  if (selection.schedule->searches() && problem.tasks() + problem.chains() > kMostSearched) {
    throw Error(ErrorKind::limit, selection.text + " searches " + describe(problem) + "; at most " +
                                      std::to_string(kMostSearched) + " tasks and chains");
  }
}

Source source_of(schedules::Selection selection, const Problem& problem, TimeModel model,
                 const schedules::Stop& stop) {
  expect_searchable(selection, problem);
  Table table = schedules::build(selection, problem, model.timing, stop);
  return {.table = std::move(table), .model = std::move(model), .selection = std::move(selection)};
}

Analysis analyze(Source source, const AnalysisOptions& options) {
  Analysis analysis;
  analysis.name = source.table.name;
  analysis.dispatch = source.table.dispatch;
  analysis.sms = source.table.problem.sms;
  analysis.selection = std::move(source.selection);
  analysis.table = std::move(source.table);
  analysis.model = std::move(source.model);
  const Timing& timing = analysis.model.timing;
  const Table& table = analysis.table;
  const Problem& problem = table.problem;
  check_timing(timing, table);
  analysis.verification = dag::verify(table, timing, options.lock_values, options.limit);
  analysis.bounds = dag::lower_bounds(problem, timing, table.dispatch);
  if (!analysis.ok()) return analysis;

  const AsPlayed played(table, timing);
  const bool build_graph =
      options.always_build_graph || dag::is_graph_cheap(played.table(), timing);
  // With the memory the table is played by itself, without what is found out of it below.
  std::future<sim::MemoryPlay> memory;
  if (timing.memory) {
    memory = std::async(beside(std::ssize(table.slots)),
                        [&] { return sim::play_memory(played.table(), played.timing()); });
  }
  // Lemma 1 asks the table alone; where it asks for a graph, one at a time is enough memory.
  auto lemma1 =
      std::async(build_graph ? std::launch::deferred : beside(std::ssize(table.slots)), [&] {
        return dag::check_lemma1(played.table(), played.timing(), options.limit, build_graph);
      });
  analysis.simulation = sim::simulate(played.table(), played.timing());
  STAGGER_EXPECTS(analysis.simulation->complete);
  analysis.phases = analysis.makespan = analysis.simulation->makespan;
  analysis.last_reduction = analysis.simulation->last_reduction;
  analysis.bubbles = sim::bubbles(played.table(), played.timing(), *analysis.simulation);
  explain_makespan(analysis, played, build_graph);
  analysis.lemma1 = lemma1.get();
  analysis.formula = check_formula(analysis);
  if (timing.memory) add_memory(analysis, memory.get());
  name_tasks(analysis);
  if (analysis.makespan == analysis.bounds.best.ticks) analysis.optimal = true;
  return analysis;
}

void expect_drawable(const Problem& problem) {
  expect_few(problem.tasks());
}

Timeline timeline_of(const Analysis& analysis) {
  const std::int32_t steps = analysis.model.timing.steps;
  expect_few(std::ssize(analysis.table.slots) * steps);
  Timeline timeline = timeline_in_steps(analysis);
  for (Interval& interval : timeline.intervals)
    name_task(interval.task, steps);
  timeline.clock = analysis.model.unit();
  timeline.lower_bound = analysis.bounds.best.ticks;
  timeline.title = analysis.name + ": " + describe(analysis.table.problem);
  if (!analysis.ok()) {
    timeline.title += std::string(" (") + dag::verdict_name(analysis.verification.verdict) + ")";
  }
  if (const auto& memory = analysis.model.timing.memory; memory && analysis.memory) {
    timeline.dq = DqMemory{.tile_bytes = memory->tile.dq, .l2_bytes = memory->l2};
    timeline.title += "; with the memory";
  }
  return timeline;
}

}  // namespace stagger::workbench
