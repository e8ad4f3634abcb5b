#include "cli/drawing.hpp"

#include "cli/report/text.hpp"
#include "core/error.hpp"
#include "sim/timeline.hpp"

namespace stagger::cli {
namespace {

using workbench::Analysis;

constexpr std::int64_t kDrawnTasks = 2'000'000;  ///< about 300 MB of intervals

/// A hanging table whose ranks are still ranks can be played as far as it goes.
bool playable(const dag::Verification& verification) {
  for (const dag::Finding& finding : verification.findings) {
    if (finding.kind != dag::FindingKind::deadlock &&
        finding.kind != dag::FindingKind::co_residency) {
      return false;
    }
  }
  return true;
}

}  // namespace

Timeline timeline_of(const Analysis& analysis) {
  if (!playable(analysis.verification)) {
    throw Error(ErrorKind::usage,
                analysis.table.name + ": an invalid table has no timeline; see `stagger verify`");
  }
  if (analysis.table.problem.tasks() > kDrawnTasks) {
    throw Error(ErrorKind::limit, std::to_string(analysis.table.problem.tasks()) +
                                      " tasks; at most " + std::to_string(kDrawnTasks) +
                                      " are drawn or listed");
  }
  const sim::Simulation simulation = analysis.simulation
                                         ? *analysis.simulation
                                         : sim::simulate(analysis.table, analysis.model.timing);
  Timeline timeline =
      sim::timeline(analysis.table, analysis.model.timing, simulation, analysis.critical_path);
  timeline.clock = analysis.model.unit();
  timeline.lower_bound = analysis.bounds.best.ticks;
  timeline.title = analysis.table.name + ": " + problem_line(analysis.table.problem);
  if (!simulation.complete) timeline.title += " (deadlock)";
  return timeline;
}

}  // namespace stagger::cli
