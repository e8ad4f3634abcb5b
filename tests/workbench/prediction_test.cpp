#include "workbench/prediction.hpp"

#include "core/error.hpp"
#include "core/order_digest.hpp"
#include "schedules/schedule.hpp"
#include "sim/memory.hpp"
#include "sim/simulate.hpp"
#include "tests/support/catch.hpp"
#include "workbench/backward_plan.hpp"
#include "workbench/json.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace stagger::workbench {
namespace {

MeasuredRun run_of(const char* schedule, Ticks measured, Ticks predicted) {
  MeasuredRun run{.source = schedule,
                  .problem = make_problem(make_mask("causal"), {6, 6}, {}, 2, 6),
                  .schedule = schedule,
                  .kernel = {.kernel = "portable", .dtype = "fp32", .head_dim = 64, .tile = {1, 1}},
                  .measured = measured,
                  .predicted = predicted};
  return run;
}

TEST_CASE("what runs say of themselves is judged, whole runs where both times are known") {
  MeasuredRuns measured;
  measured.runs = {run_of("spt", 1'000, 900), run_of("descending", 800, 880),
                   run_of("ascending", 1'200, 1'200)};
  measured.runs[1].elapsed = 2'000;
  measured.runs[1].predicted_elapsed = 1'500;
  measured.runs[2].elapsed = 2'500;  // of which nothing is predicted
  const PredictedRuns judged = predict_runs(measured, std::nullopt);
  REQUIRE(judged.spans.runs == std::vector<std::size_t>{0, 1, 2});
  CHECK(judged.spans.find(0)->predicted == 900);
  CHECK(judged.spans.find(1)->measured == 800);
  CHECK(judged.spans.find(2)->error() == 0.0);
  CHECK(judged.spans.find(3) == nullptr);
  REQUIRE(judged.wholes.runs == std::vector<std::size_t>{1});
  CHECK(judged.wholes.find(0) == nullptr);
  CHECK(judged.wholes.find(1)->measured == 2'000);
  CHECK(judged.wholes.find(1)->predicted == 1'500);
  CHECK(judged.wholes.find(2) == nullptr);
}

TEST_CASE("runs that no timing model tells apart are of one likeness") {
  MeasuredRuns measured;
  measured.runs = {run_of("descending", 1'000, 900), run_of("descending", 990, 900),
                   run_of("ascending", 1'000, 900),  run_of("descending", 1'000, 900),
                   run_of("descending", 1'000, 900), run_of("optimal:effort=0", 1'000, 900)};
  measured.runs[3].timing.residency = 5;
  measured.runs[4].timing.release = Release::delayed;
  const PredictedRuns judged = predict_runs(measured, std::nullopt);
  const auto table = [&](std::size_t run) { return judged.spans.find(run)->table; };
  CHECK(table(0) != 0);
  CHECK(table(0) == table(1));
  CHECK(table(0) != table(2));
  CHECK(table(0) != table(3));
  CHECK(table(0) != table(4));
  CHECK(table(3) != table(4));
  CHECK(table(5) == 0);  // it would have to be searched again
  // A file's table is known if it was given.
  MeasuredRuns files;
  files.runs = {run_of("mine", 1'000, 900), run_of("mine", 1'000, 900)};
  files.runs[0].from_file = files.runs[1].from_file = true;
  files.runs[1].table =
      schedules::build(schedules::select("descending"), files.runs[1].problem, {});
  const PredictedRuns given = predict_runs(files, std::nullopt);
  CHECK(given.spans.find(0)->table == 0);
  CHECK(given.spans.find(1)->table == table(0));
}

TEST_CASE("where nothing is predicted that is said, and why runs were skipped") {
  MeasuredRuns none;
  none.skipped = {"a.json: mode atomic", "b.json: a verdict"};
  CHECK_THROWS_WITH(predict_runs(none, std::nullopt), Catch::Contains("there is no run") &&
                                                          Catch::Contains("a.json: mode atomic") &&
                                                          Catch::Contains("b.json"));
  MeasuredRuns silent;
  silent.runs = {run_of("spt", 1'000, 900)};
  silent.runs[0].predicted.reset();
  CHECK_THROWS_WITH(predict_runs(silent, std::nullopt), Catch::Contains("--machine"));
}

MeasuredRun run_of_file(const char* name, std::int64_t heads) {
  MeasuredRun run = run_of(name, 1'000, 900);
  run.problem = make_problem(make_mask("causal"), {6, 6}, {}, heads, 6);
  run.from_file = true;
  return run;
}

TEST_CASE("tables that are given go to the runs of their name and problem, if those had a file") {
  Table mine = schedules::build(schedules::select("descending"), run_of_file("mine", 2).problem);
  mine.name = "mine";
  Table wide = schedules::build(schedules::select("descending"), run_of_file("mine", 4).problem);
  wide.name = "mine";
  MeasuredRuns measured;
  measured.runs = {run_of_file("mine", 2), run_of_file("mine", 4), run_of_file("other", 2),
                   run_of_file("mine", 3), run_of_file("mine", 2)};
  measured.runs[4].from_file = false;
  give_tables(measured, {wide, mine});
  REQUIRE(measured.runs[0].table.has_value());
  CHECK(measured.runs[0].table->slots == mine.slots);
  REQUIRE(measured.runs[1].table.has_value());
  CHECK(measured.runs[1].table->slots == wide.slots);
  for (const std::size_t without : {2U, 3U, 4U})
    CHECK_FALSE(measured.runs[without].table.has_value());
}

/// A profile of one kernel, whose runs take `start` beyond their makespan.
Machine machine_of_one(Ticks start) {
  return {
      .name = "toy",
      .device = "a toy",
      .driver = "1",
      .sms = 6,
      .kernels = {{.key = {.kernel = "portable", .dtype = "fp32", .head_dim = 64, .tile = {1, 1}},
                   .compute = {.value = 50},
                   .reduce = {.value = 9},
                   .latency = {.value = 4},
                   .start = {.value = start}}},
      .memory = std::nullopt};
}

TEST_CASE("what a machine predicts is its timing played on the run's table, and judged so") {
  const Machine machine = machine_of_one(700);
  MeasuredRuns measured;
  measured.runs = {run_of("spt", 1'000, 1), run_of("descending", 1'000, 1), run_of_file("mine", 2)};
  measured.runs[1].elapsed = 2'000;
  measured.runs[2].table = schedules::build(schedules::select("shift"),
                                            make_problem(make_mask("full"), {6, 6}, {}, 2, 6));
  measured.runs[2].problem = measured.runs[2].table->problem;
  const PredictedRuns judged = predict_runs(measured, machine);
  const Timing timing{.compute = 50, .reduce = 9, .latency = 4};
  std::int64_t worst_ppm = 0;
  for (std::size_t index = 0; index < 3; ++index) {
    const MeasuredRun& run = measured.runs[index];
    const Table table =
        run.table ? *run.table : schedules::build(schedules::select(run.schedule), run.problem);
    const sim::Simulation played = sim::simulate(table, timing);
    CAPTURE(index);
    CHECK(judged.spans.find(index)->predicted == played.last_reduction);
    CHECK(judged.spans.find(index)->schedule == run.schedule);
    const Predicted alone = predict(machine, run);
    CHECK(alone.last_reduction == played.last_reduction);
    CHECK(alone.elapsed == played.makespan + 700);
    CHECK(alone.table == judged.spans.find(index)->table);
    worst_ppm = std::max(
        worst_ppm, std::int64_t{std::llround(
                       1e6 * std::abs(static_cast<double>(played.last_reduction) / 1'000 - 1))});
  }
  REQUIRE(judged.wholes.runs == std::vector<std::size_t>{1});
  CHECK(judged.wholes.find(1)->predicted == *predict(machine, measured.runs[1]).elapsed);
  CHECK(judged.spans.accuracy.worst_ppm == worst_ppm);
  CHECK(judged.machine->name == "toy");
  // Kernels and heads tell groups apart; what a tick lasts does where phases spin.
  CHECK(judged.spans.find(0)->group == judged.spans.find(1)->group);
  CHECK(judged.spans.find(0)->group.ends_with("; portable, fp32, head_dim 64"));
  MeasuredRun spins = measured.runs[0];
  spins.kernel = {.kernel = "replay"};
  spins.tick_ns = 250;
  MeasuredRuns spun;
  spun.runs = {spins};
  CHECK(predict_runs(spun, std::nullopt)
            .spans.find(0)
            ->group.ends_with("; replay, a tick is 250 ns"));
}

TEST_CASE("a prediction says how much dQ is in flight, and judges what outgrows L2 apart") {
  MeasuredRuns measured;
  measured.runs = {run_of("ascending", 1'000, 1), run_of("descending", 1'000, 1)};
  measured.runs[1].elapsed = 2'000;
  Machine machine = machine_of_one(0);
  int beyond = 0;
  for (const std::int64_t l2 : {256, 512, 1'024, 4'096}) {
    machine.memory = DeviceMemory{.l2_bytes = l2, .bytes_per_ns = 10};
    const PredictedRuns judged = predict_runs(measured, machine);
    int of_these = 0;
    for (std::size_t index = 0; index < 2; ++index) {
      Timing timing{.compute = 50, .reduce = 9, .latency = 4};
      timing.memory = Memory{.l2 = l2, .rate = 10, .tile = tile_bytes(machine.kernels[0].key)};
      const Table table = schedules::build(schedules::select(measured.runs[index].schedule),
                                           measured.runs[index].problem);
      const std::int64_t in_flight = sim::play_memory(table, timing).in_flight;
      CAPTURE(l2, index);
      CHECK(judged.spans.find(index)->l2 == l2);
      CHECK(judged.spans.find(index)->dq_in_flight == in_flight);
      of_these += in_flight > l2 ? 1 : 0;
    }
    CHECK(judged.spans.accuracy.beyond_l2.runs == of_these);
    CHECK(judged.spans.accuracy.in_l2.runs == 2 - of_these);
    CHECK(judged.wholes.find(1)->dq_in_flight == judged.spans.find(1)->dq_in_flight);
    CHECK(judged.wholes.accuracy.beyond_l2.runs + judged.wholes.accuracy.in_l2.runs == 1);
    beyond += of_these;
  }
  CHECK(beyond > 1);
  CHECK(beyond < 7);
  machine.memory.reset();
  CHECK(predict_runs(measured, machine).spans.find(0)->l2 == 0);
}

TEST_CASE("of a searched table that is not found again nothing is predicted, and that is said") {
  const Machine machine = machine_of_one(0);
  const auto digest_of = [](const MeasuredRun& run) {
    const Table table = schedules::build(schedules::select(run.schedule), run.problem, run.timing);
    return hexadecimal(order_digest(table, kNumerics, run.kernel.head_dim));
  };
  MeasuredRuns measured;
  measured.runs = {run_of("windowed", 1'000, 1), run_of("windowed", 1'000, 1),
                   run_of("descending", 1'000, 1), run_of("windowed", 1'000, 1)};
  measured.runs[0].orders = digest_of(measured.runs[0]);
  measured.runs[1].source = "old.json (2)";
  measured.runs[1].orders = digest_of(run_of("ascending", 1'000, 1));
  measured.runs[2].orders = "0123456789abcdef";  // a rule's table is what its name says
  measured.skipped = {"a.json: mode atomic"};
  const PredictedRuns judged = predict_runs(measured, machine);
  REQUIRE(judged.measured.runs.size() == 3);
  CHECK(judged.measured.runs[1].schedule == "descending");
  CHECK(judged.spans.runs == std::vector<std::size_t>{0, 1, 2});
  CHECK(
      judged.measured.skipped ==
      std::vector<std::string>{"a.json: mode atomic",
                               "old.json (2): windowed finds another table than the one that ran"});
  // What a run says of itself needs no table.
  CHECK(predict_runs(measured, std::nullopt).spans.runs.size() == 4);
  // What is given is what ran.
  measured.runs[1].table = schedules::build(schedules::select("ascending"),
                                            measured.runs[1].problem, measured.runs[1].timing);
  CHECK(predict_runs(measured, machine).spans.runs.size() == 4);
}

TEST_CASE("a table that is not given, has no task or would not run is predicted nothing of") {
  const Machine machine = machine_of_one(0);
  CHECK_THROWS_WITH(predict(machine, run_of_file("mine", 2)),
                    "mine: its table 'mine' was a file's: give that file with --tables");
  const std::string would_not = ": its table would not run on this machine";
  MeasuredRun hangs = run_of_file("hangs", 2);
  hangs.table = schedules::build(schedules::select("descending"), hangs.problem);
  hangs.table->slots.front().rank = 77;
  CHECK_THROWS_WITH(predict(machine, hangs), "hangs" + would_not);
  MeasuredRun empty = run_of_file("empty", 2);
  empty.problem = make_problem(parse_mask("tiles:rows=.."), {2, 1}, {}, 1, 1);
  empty.table = schedules::build(schedules::select("descending"), empty.problem);
  CHECK_THROWS_WITH(predict(machine, empty), "empty" + would_not);
  MeasuredRun other = run_of("spt", 1'000, 1);
  other.kernel.head_dim = 128;
  CHECK_THROWS_WITH(predict(machine, other), Catch::Contains("head_dim 64"));
}

}  // namespace
}  // namespace stagger::workbench
