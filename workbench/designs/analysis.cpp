#include "workbench/designs/analysis.hpp"

#include "core/checked.hpp"
#include "core/error.hpp"
#include "core/time_unit.hpp"
#include "workbench/designs/free_lanes.hpp"
#include "workbench/designs/lanes.hpp"
#include "workbench/designs/pass_time.hpp"
#include "workbench/designs/units.hpp"

#include <algorithm>
#include <utility>

namespace stagger::designs {
namespace {

/// Ticks of a number of units, rounded up.
Ticks in_ticks(Ticks units, const Plan& plan) {
  return divide_up(units, plan.units);
}

/// Units that device memory takes at least for a stage.
Ticks traffic_of(const Stage& stage, const Plan& plan, const workbench::TimeModel& model) {
  if (!model.timing.memory) return 0;
  const Checked bytes = Checked(stage.bytes) * plan.units;
  if (!bytes.within(Ticks{1} << 62)) throw Error(ErrorKind::limit, "a kernel moves too much");
  return divide_up(bytes.value(), model.timing.memory->streamed());
}

struct PlayedLanes {
  Ticks makespan = 0;
  double work = 0;  ///< of all lanes one after the other
};
PlayedLanes play_lanes(const Stage& stage) {
  const std::vector<Ticks> durations = lane_durations(stage);
  PlayedLanes played{.makespan = in_order_makespan(durations, sms_of(stage))};
  for (const Ticks duration : durations)
    played.work += static_cast<double>(duration);
  return played;
}

/// Chains of whole kernels, with their launches and epilogues, must fit ticks one after the other.
void expect_fits(const Stage& stage) {
  const auto& lanes = std::get<FreeLanes>(stage.work);
  const Timing& timing = stage.timing;
  const Checked task = Checked(timing.longest_compute()) * kGemms + timing.reduce;
  const Checked all =
      task * stage.problem.tasks() * 2 +
      (Checked(timing.launch) + timing.epilogue) * static_cast<std::int64_t>(lanes.chains.size());
  if (!all.within(Ticks{1} << 61)) throw Error(ErrorKind::limit, "durations are too long");
}

std::optional<Ticks> elapsed(const Analysis& analysis) {
  const workbench::TimeModel& model = analysis.model;
  if (model.clock != workbench::Clock::ns || !model.timing.memory) return std::nullopt;
  Ticks all = analysis.makespan + std::ssize(analysis.plan.stages) * kLaunchNs;
  for (const Pass& pass : analysis.plan.passes)
    all += pass_ns(pass, model.timing.memory->streamed());
  return all;
}

void play(Analysis& analysis, const workbench::AnalysisOptions& options) {
  Plan& plan = analysis.plan;
  Ticks units = 0;
  double busy = 0;  // in units
  for (Stage& stage : plan.stages) {
    Ticks takes = 0;
    if (auto* table = std::get_if<Table>(&stage.work)) {
      workbench::TimeModel model = analysis.model;
      model.timing = stage.timing;
      analysis.lanes += table->lanes();
      analysis.table = workbench::analyze(
          {.table = std::move(*table), .model = std::move(model), .selection = {}}, options);
      takes = analysis.table->makespan;
      busy += (1 - analysis.table->bubble_fraction()) * static_cast<double>(takes);
    } else {
      expect_fits(stage);
      analysis.lanes += std::get<FreeLanes>(stage.work).lanes();
      const PlayedLanes played = play_lanes(stage);
      takes = std::max(played.makespan, traffic_of(stage, plan, analysis.model));
      busy += played.work / sms_of(stage);
    }
    analysis.stages.push_back(in_ticks(takes, plan));
    units += takes;
  }
  analysis.makespan = in_ticks(units, plan);
  if (units > 0) analysis.busy = busy / static_cast<double>(units);
  analysis.elapsed = elapsed(analysis);
}

/// Times in units as whole ns, rounded up, or as they are in parts of a tick.
void state_units(Timeline& timeline, Ticks units) {
  if (units == 1) return;
  if (timeline.clock == "ticks") {
    timeline.clock = clock_of_parts(units);
    return;
  }
  for (Interval& interval : timeline.intervals) {
    interval.start = divide_up(interval.start, units);
    interval.end = divide_up(interval.end, units);
  }
  timeline.makespan = divide_up(timeline.makespan, units);
  timeline.lower_bound = divide_up(timeline.lower_bound, units);
}

}  // namespace

Analysis analyze(const Selection& selection, const Request& request,
                 const workbench::AnalysisOptions& options) {
  Analysis analysis{
      .design = selection.design, .plan = plan(selection, request), .model = request.model};
  play(analysis, options);
  return analysis;
}

Timeline timeline_of(const Analysis& analysis, const Problem& problem) {
  const Plan& plan = analysis.plan;
  Timeline timeline;
  if (analysis.table) {
    timeline = workbench::timeline_of(*analysis.table);
  } else {
    timeline.clock = analysis.model.unit();
    for (const Stage& stage : plan.stages) {
      workbench::expect_drawable(stage.problem);
      timeline.sms = std::max(timeline.sms, sms_of(stage));
      add_intervals(stage, timeline.makespan, timeline);
    }
    std::sort(timeline.intervals.begin(), timeline.intervals.end(), precedes);
  }
  timeline.heads = problem.heads;
  timeline.title = plan.name + ": " + describe(problem);
  state_units(timeline, plan.units);
  if (plan.original != nullptr) {
    for (Interval& interval : timeline.intervals)
      interval.task = plan.original(problem, interval.task);
  }
  return timeline;
}

Ticks without_order(const Problem& problem, const workbench::TimeModel& model) {
  const auto [timing, per_tick] = gemm_units(model.timing);
  const Stage stage{.name = "without order",
                    .problem = problem,
                    .timing = timing,
                    .work = a_lane_each(problem, Keeps::kv, kGemms, problem.span)};
  expect_fits(stage);
  return divide_up(play_lanes(stage).makespan, per_tick);
}

}  // namespace stagger::designs
