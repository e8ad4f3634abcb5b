#include "gpu/cuda/replay.hpp"

#include "gpu/check/checked_runs.hpp"
#include "schedules/schedule.hpp"
#include "sim/simulate.hpp"
#include "tests/support/catch.hpp"

namespace stagger::gpu {
namespace {

constexpr std::chrono::milliseconds kReplayPatience{10'000};

TEST_CASE("a replay takes as long as the simulator says") {
  std::int64_t cases = 0;
  for (const char* schedule : {"ascending", "descending", "shift", "symmetric-shift", "spt"}) {
    for (const char* mask : {"full", "causal"}) {
      const Problem problem = make_problem(make_mask(mask), {16, 16}, {}, 2, 16);
      const schedules::Selection selection = schedules::select(schedule);
      if (schedules::why_unsupported(selection, problem)) continue;
      const Table table = schedules::build(selection, problem);
      const ReplayTimes times{.timing = {.compute = 5, .reduce = 2, .launch = 1, .epilogue = 3},
                              .tick_ns = 10'000};
      const Backward run = replay_on_cuda(table, times, {.timeout = kReplayPatience});
      REQUIRE(run.outcome == Outcome::finished);
      CHECK(order_faults(table, run).empty());
      // The model's latency is 0, the device's about a tenth of a tick a hand-over.
      const Ticks predicted = sim::simulate(table, times.timing).makespan * times.tick_ns;
      const Ticks measured = measured_timeline(table, run, "").makespan;
      CAPTURE(schedule, mask, predicted, measured);
      CHECK(measured >= predicted - 4 * times.tick_ns);  // the last epilogue is no phase of a task
      CHECK(measured <= predicted + predicted / 10);
      ++cases;
    }
  }
  CHECK(cases >= 6);
}

TEST_CASE("the SMs' clocks tell how long a phase spun") {
  const Problem problem = make_problem(make_mask("full"), {8, 64}, {}, 1, 8);
  const Table table = schedules::build(schedules::select("shift"), problem);
  // Phases are spun by the global timer and stamped by both clocks: its steps at both ends.
  constexpr std::int64_t kTick = 1'000;
  const ReplayTimes times{.timing = {.compute = 6, .reduce = 2}, .tick_ns = kTick};
  const Backward run = replay_on_cuda(table, times, {.timeout = kReplayPatience});
  REQUIRE(run.outcome == Outcome::finished);
  const std::int64_t step = run.times_error_ns;
  CHECK(step >= 1);
  for (const TaskTimes& task : run.times) {
    CHECK(task.compute_end - task.compute_start >= 6 * kTick - 2 * step);
    CHECK(task.compute_end - task.compute_start <= 7 * kTick);
    CHECK(task.turn >= task.compute_end);
    CHECK(task.reduce_end - task.turn >= 2 * kTick - 2 * step);
  }
}

TEST_CASE("checked replays see the order and nothing else") {
  const Problem problem = make_problem(make_mask("causal"), {16, 16}, {}, 1, 0);
  const Table table = schedules::build(schedules::select("descending"), problem);
  const Replay replay{.device = replay_on_cuda, .times = {.timing = {}, .tick_ns = 500}};
  const CheckedRuns runs =
      check_replays(table, {.timeout = kReplayPatience, .perturb = 4}, 5, replay);
  CHECK(runs.verdict == RunVerdict::ok);
  CHECK(runs.repeats == 5);
  CHECK(runs.order_matches);
  CHECK_FALSE(runs.errors.has_value());
  CHECK(median_hand_over_ns(table, runs.run) > 0);
}

TEST_CASE("a replayed deadlock is stopped") {
  const Problem problem = make_problem(make_mask("full"), {4, 4}, {}, 1, 4);
  const Table table = schedules::build(schedules::select("shift"), problem);
  const Backward run = replay_on_cuda(
      table, {}, {.release = Release::delayed, .timeout = std::chrono::milliseconds(20)});
  CHECK(run.outcome == Outcome::deadlock);
  CHECK(waits(table, run).size() == 4);
}

}  // namespace
}  // namespace stagger::gpu
