#include "workbench/calibration/calibration.hpp"

#include "core/error.hpp"
#include "schedules/schedule.hpp"
#include "sim/simulate.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random.hpp"
#include "tests/support/toy_device.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace stagger::workbench {
namespace {

/// A few tables on 8 SMs, static and in-order, with and without reductions.
std::vector<CalibrationRun> toy_runs(const test::ToyDevice& device, test::Random& random) {
  std::vector<CalibrationRun> runs;
  for (const char* mask : {"full", "causal"}) {
    for (const std::int64_t n : {3, 6, 12}) {
      const Problem problem =
          make_problem(make_mask(mask), {n * 128, n * 128}, {.q = 64, .kv = 128}, 48 / n, 8);
      for (const char* name : {"ascending", "descending", "shift", "symmetric-shift", "spt"}) {
        const schedules::Selection selection = schedules::select(name);
        if (schedules::why_unsupported(selection, problem)) continue;
        const Table table = schedules::build(selection, problem);
        if (!sim::simulate(table, device.timing).complete) continue;
        for (const gpu::Mode mode : {gpu::Mode::deterministic, gpu::Mode::no_reduce})
          runs.push_back({table, mode, test::run_on_toy(device, table, mode, random)});
      }
    }
  }
  REQUIRE(runs.size() >= 40);
  return runs;
}

/// Adds runs of problems that are as large as the passes need: 12 and 30 Mi elements of 64 each.
void add_large_runs(const test::ToyDevice& device, test::Random& random,
                    std::vector<CalibrationRun>& runs) {
  for (const std::int64_t heads : {512, 1280}) {
    const Problem problem =
        make_problem(make_mask("causal"), {384, 384}, {.q = 64, .kv = 128}, heads, 8);
    const Table table = schedules::build(schedules::select("descending"), problem);
    runs.push_back({table, gpu::Mode::deterministic,
                    test::run_on_toy(device, table, gpu::Mode::deterministic, random)});
  }
  for (CalibrationRun& run : runs) {
    const Problem& problem = run.table.problem;
    run.q_elements = problem.heads * problem.lengths.q * device.head_dim;
  }
}

constexpr Timing kChain{.model = Model::chain,
                        .compute = 9000,
                        .compute_partial = 11000,
                        .reduce = 1200,
                        .latency = 700,
                        .launch = 2000,
                        .epilogue = 600};
constexpr Timing kOverlap{.model = Model::overlap,
                          .compute = 3000,
                          .compute_partial = 3600,
                          .reduce = 1300,
                          .latency = 650,
                          .launch = 1500,
                          .epilogue = 900,
                          .next_lane = 1400};

void expect_near(const char* name, const MeasuredNs& found, Ticks truth, Ticks tolerance) {
  CAPTURE(name, found.value, truth, found.low, found.high, found.samples);
  CHECK(std::abs(found.value - truth) <= tolerance);
  CHECK(found.samples > 0);
}

void expect_near(const KernelTimes& found, const Timing& truth, Ticks tolerance) {
  expect_near("compute", found.compute, truth.compute, tolerance);
  REQUIRE(found.compute_partial.has_value() == truth.compute_partial.has_value());
  if (truth.compute_partial) {
    expect_near("compute_partial", *found.compute_partial, *truth.compute_partial, tolerance);
  }
  expect_near("reduce", found.reduce, truth.reduce, tolerance);
  expect_near("latency", found.latency, truth.latency, tolerance);
  expect_near("launch", found.launch, truth.launch, tolerance);
  expect_near("epilogue", found.epilogue, truth.epilogue, tolerance);
  REQUIRE(found.next_lane.has_value() == truth.next_lane.has_value());
  if (truth.next_lane) {
    CAPTURE(found.next_lane->value, *truth.next_lane, tolerance);
    CHECK(std::abs(found.next_lane->value - *truth.next_lane) <= tolerance);
    CHECK(found.next_lane->samples == 0);
  }
}

TEST_CASE("a device without noise is found to the nanosecond, in both models") {
  for (const auto& [timing, stamps_hand_over] :
       {std::pair{kChain, false}, std::pair{kOverlap, false}, std::pair{kOverlap, true}}) {
    CAPTURE(timing.model == Model::overlap, stamps_hand_over);
    test::Random random(81);
    const test::ToyDevice device{
        .timing = timing, .start = 5000, .stamps_hand_over = stamps_hand_over};
    const auto runs = toy_runs(device, random);
    const Calibration found = calibrate(evidence_of(runs, timing.model));
    expect_near(found.times, timing, 0);
    expect_near("start", found.times.start, 5000, 0);
    CHECK(found.times.fit.worst_ppm == 0);
    CHECK(found.times.fit.runs == std::ssize(runs) / 2);
    for (const Residual& residual : found.residuals)
      CHECK(residual.predicted == residual.measured);
  }
}

TEST_CASE("the phases of tasks that are steps are found by the last one's reduction") {
  Timing timing = kOverlap;
  timing.steps = 2;
  const test::ToyDevice device{.timing = timing, .start = 5000};
  test::Random random(87);
  const auto runs = toy_runs(device, random);
  const Calibration found = calibrate(evidence_of(runs, timing.model, timing.steps));
  CHECK(found.times.steps == 2);
  CHECK(found.times.timing().steps == 2);
  expect_near(found.times, timing, 60);
  expect_near("start", found.times.start, 5000, 100);
  CHECK(found.times.fit.median_ppm < 1'000);
  // As one they are predicted worse by far.
  CHECK(calibrate(evidence_of(runs, timing.model)).times.fit.median_ppm >
        10 * found.times.fit.median_ppm);
}

TEST_CASE("noise and a coarse timer move the values by no more than they are") {
  for (const Timing& timing : {kChain, kOverlap}) {
    for (const std::uint32_t seed : {82U, 83U, 84U}) {
      CAPTURE(timing.model == Model::overlap, seed);
      test::Random random(seed);
      const test::ToyDevice device{.timing = timing, .noise = 0.05, .timer = 32, .start = 5000};
      const Calibration found = calibrate(evidence_of(toy_runs(device, random), timing.model));
      expect_near(found.times, timing, 120);
      CHECK(found.times.fit.median_ppm < 10'000);
      CHECK(found.times.fit.worst_ppm < 30'000);
      CHECK(found.times.compute.low < found.times.compute.high);
    }
  }
}

TEST_CASE("what passes take by elements is found apart from what they take anyhow") {
  for (const Timing& timing : {kChain, kOverlap}) {
    CAPTURE(timing.model == Model::overlap);
    test::Random random(89);
    const test::ToyDevice device{
        .timing = timing, .start = 5000, .passes = 7000, .passes_per_mi = 2600};
    std::vector<CalibrationRun> runs = toy_runs(device, random);
    add_large_runs(device, random, runs);
    const KernelTimes found = calibrate(evidence_of(runs, timing.model)).times;
    REQUIRE(found.passes_per_mi.has_value());
    expect_near("passes_per_mi", *found.passes_per_mi, 2600, 1);
    expect_near("start", found.start, 12'000, 1);
    expect_near(found, timing, 0);
  }
}

TEST_CASE("passes are found in noise, by their growth alone") {
  test::Random random(90);
  const test::ToyDevice device{.timing = kOverlap,
                               .noise = 0.05,
                               .timer = 32,
                               .start = 5000,
                               .passes = 7000,
                               .passes_per_mi = 2600};
  std::vector<CalibrationRun> runs = toy_runs(device, random);
  add_large_runs(device, random, runs);
  const Calibration found = calibrate(evidence_of(runs, Model::overlap));
  REQUIRE(found.times.passes_per_mi.has_value());
  expect_near("passes_per_mi", *found.times.passes_per_mi, 2600, 150);
  CHECK(found.times.passes_per_mi->low <= found.times.passes_per_mi->high);
}

TEST_CASE("without passes, or without a problem that is large enough, none are found") {
  test::Random random(91);
  const test::ToyDevice none{.timing = kOverlap, .start = 5000};
  std::vector<CalibrationRun> runs = toy_runs(none, random);
  add_large_runs(none, random, runs);
  CHECK_FALSE(calibrate(evidence_of(runs, Model::overlap)).times.passes_per_mi.has_value());
  const test::ToyDevice passes{
      .timing = kOverlap, .start = 5000, .passes = 7000, .passes_per_mi = 2600};
  runs = toy_runs(passes, random);
  for (CalibrationRun& run : runs)
    run.q_elements = 48 * 128 * 64;
  const KernelTimes found = calibrate(evidence_of(runs, Model::overlap)).times;
  CHECK_FALSE(found.passes_per_mi.has_value());
  // Then they are a constant, here of 6144 rows of 64.
  expect_near("start", found.start, 12'000 + 2600 * 48 * 128 * 64 / (1 << 20), 1);
}

TEST_CASE("passes are told from runs by the ranks of which one has four times the elements") {
  test::Random random(95);
  std::vector<CalibrationRun> runs = toy_runs({.timing = kOverlap, .start = 5000}, random);
  std::int64_t small = 0;
  for (std::size_t index = 0; index < runs.size(); ++index) {
    CalibrationRun& run = runs[index];
    const bool large = index / 2 % 2 == 1;  // two runs of each table
    const bool by_ranks = run.mode == gpu::Mode::deterministic;
    run.q_elements = by_ranks ? (large ? 4'000 : 1'000) : (large ? 9'000'000 : 1);
    run.run.passes_ns = by_ranks ? (large ? 103 : 100) : (large ? 80'000 : 1);
    small += by_ranks && !large ? 1 : 0;
  }
  const std::int64_t large = std::ssize(runs) / 2 - small;
  const auto passes = [&] {
    return calibrate(evidence_of(runs, Model::overlap)).times.passes_per_mi;
  };
  // 3 ns for 3,000 elements, of every pair.
  REQUIRE(passes().has_value());
  CHECK(*passes() ==
        MeasuredNs{.value = 1'049, .low = 1'049, .high = 1'049, .samples = small * large});
  runs[0].run.passes_ns = 0;  // a run without passes tells nothing
  CHECK(passes()->samples == (small - 1) * large);
  runs[0].run.passes_ns = 100;
  runs[0].q_elements = 0;
  CHECK(passes()->samples == (small - 1) * large);
  for (CalibrationRun& run : runs)
    run.q_elements = run.q_elements == 4'000 ? 3'999 : run.q_elements;
  CHECK_FALSE(passes().has_value());
}

TEST_CASE("where launches are stamped does not matter to what is predicted") {
  for (const Timing& timing : {kChain, kOverlap}) {
    CAPTURE(timing.model == Model::overlap);
    test::Random random(85);
    const test::ToyDevice device{.timing = timing, .start = 5000, .stamps_launch = false};
    const Calibration found = calibrate(evidence_of(toy_runs(device, random), timing.model));
    expect_near("epilogue", found.times.epilogue, timing.epilogue + timing.launch, 0);
    CHECK(found.times.launch.value == 0);
    CHECK(found.times.fit.worst_ppm == 0);
  }
}

TEST_CASE("what taking a free turn takes counts as compute in the chain model") {
  test::Random random(86);
  const test::ToyDevice device{.timing = kChain, .taking = 300};
  const Calibration found = calibrate(evidence_of(toy_runs(device, random), Model::chain));
  expect_near("compute", found.times.compute, kChain.compute + 300, 40);
  expect_near("reduce", found.times.reduce, kChain.reduce, 40);
  CHECK(found.times.fit.worst_ppm < 5'000);
}

TEST_CASE("equal partial tiles are found equal, and a mask without them has none") {
  test::Random random(87);
  Timing timing = kOverlap;
  timing.compute_partial.reset();
  const auto runs = toy_runs({.timing = timing}, random);
  const Calibration found = calibrate(evidence_of(runs, Model::overlap));
  REQUIRE(found.times.compute_partial.has_value());
  CHECK(found.times.compute_partial->value == timing.compute);
  std::vector<CalibrationRun> full;
  for (const CalibrationRun& run : runs) {
    if (run.table.problem.mask.family->name == std::string("full")) full.push_back(run);
  }
  CHECK_FALSE(calibrate(evidence_of(full, Model::overlap)).times.compute_partial.has_value());
}

TEST_CASE("what stamps cost is left out of makespans and of the start, where it is known") {
  test::Random random(90);
  const test::ToyDevice device{.timing = kOverlap, .start = 5000};
  auto runs = toy_runs(device, random);
  for (CalibrationRun& run : runs) {
    run.run.untimed_ns = run.run.elapsed_ns;
    run.run.elapsed_ns += 700;
    for (gpu::TaskTimes& times : run.run.times) {  // all of it after the first task's start
      for (std::int64_t* time :
           {&times.compute_start, &times.compute_end, &times.turn, &times.reduce_end}) {
        if (*time > 0) *time += 700;
      }
    }
  }
  const Calibration found = calibrate(evidence_of(runs, Model::overlap));
  CHECK(found.times.fit.worst_ppm < 2000);
  expect_near("start", found.times.start, 5000, 60);
  const Calibration unknown = calibrate(evidence_of(
      [&] {
        for (CalibrationRun& run : runs)
          run.run.untimed_ns = 0;
        return runs;
      }(),
      Model::overlap));
  CHECK(unknown.residuals.front().measured == found.residuals.front().measured + 700);
}

TEST_CASE("a part of dK and dV takes what is left of hand-overs that were waited for") {
  test::Random random(97);
  const test::ToyDevice device{.timing = kOverlap, .start = 5000};
  std::vector<CalibrationRun> runs = toy_runs(device, random);
  const Calibration without = calibrate(evidence_of(runs, Model::overlap));
  CHECK_FALSE(without.times.reduce_kv.has_value());

  // Two KV heads of four parts, of which a part is ready 100 ns before the rank before it ends, or
  // 1 ns after, which tells nothing.
  const Problem problem = make_problem(make_mask("full"), {256, 256}, {.q = 64, .kv = 128}, 8, 8,
                                       {.heads_kv = 2, .span = 1, .combine = Combine::ordered});
  const Table table = schedules::build(schedules::select("spt"), problem);
  gpu::Backward run = test::run_on_toy(device, table, gpu::Mode::deterministic, random);
  run.chain_times.resize(static_cast<std::size_t>(problem.chains()));
  constexpr Ticks kReduceKv = 1'900;
  for (Part part{0}; part.value < problem.heads; ++part.value) {
    for (KvTile kv{0}; kv.value < problem.kv_tiles(); ++kv) {
      const std::int32_t rank = table.dkv_rank(part, kv);
      const Ticks before = 50'000 + rank * (kOverlap.latency + kReduceKv);
      const Ticks end = before + kOverlap.latency + kReduceKv;
      const bool waits = part.value < 4;
      run.chain_times[static_cast<std::size_t>(problem.chain_place(part, kv))] = {
          .ready = waits ? before - 100 : before + 1, .turn = end - 300, .end = end};
    }
  }
  runs.push_back({table, gpu::Mode::deterministic, run});
  const Calibration found = calibrate(evidence_of(runs, Model::overlap));
  REQUIRE(found.times.reduce_kv.has_value());
  CHECK(found.times.reduce_kv->value == kReduceKv);
  CHECK(found.times.reduce_kv->samples == 2 * 3);  // KV tiles, ranks behind the first
  // Nothing else is asked of such a run.
  CHECK(found.residuals.size() == without.residuals.size());
  CHECK(found.times.compute == without.times.compute);
  CHECK(found.times.start == without.times.start);
}

TEST_CASE(
    "a value is moved to no more than twice itself and its width, or 200 steps of the timer") {
  // Every run ends at four times its time, which no typical task shows and longer phases would
  // make up for. The quartiles are equal, so that a twentieth of a value is its width.
  constexpr Timing kLong{.model = Model::chain,
                         .compute = 90'000,
                         .compute_partial = 120'000,
                         .reduce = 7'000,
                         .latency = 700,
                         .launch = 20,
                         .epilogue = 600};
  for (const auto& [timing, most] :
       {std::pair{kChain, 2 * 9'000 + 6'400}, std::pair{kLong, 2 * 90'000 + 6'400}}) {
    test::Random random(96);
    std::vector<CalibrationRun> runs = toy_runs({.timing = timing}, random);
    expect_near(calibrate(evidence_of(runs, Model::chain)).times, timing, 0);
    for (CalibrationRun& run : runs) {
      if (run.mode != gpu::Mode::deterministic) continue;
      std::ranges::max_element(run.run.times, {}, &gpu::TaskTimes::reduce_end)->reduce_end *= 4;
    }
    const KernelTimes found = calibrate(evidence_of(runs, Model::chain)).times;
    CHECK(found.compute.value == most);
    CHECK(found.reduce.value > timing.reduce);
    CHECK(found.reduce.value <= 2 * timing.reduce + 6'400);
    CHECK(found.latency.value <= 2 * timing.latency + 6'400);
    CHECK(found.fit.median_ppm > 300'000);
  }
}

TEST_CASE("one run of one task is enough, and its values are those that it shows") {
  const Problem problem = make_problem(make_mask("full"), {64, 64}, {.q = 64, .kv = 64}, 1, 1);
  const Table table = schedules::build(schedules::select("ascending"), problem);
  test::Random random(97);
  const Timing timing{.model = Model::chain, .compute = 9'000, .reduce = 900};
  const CalibrationRun run{
      table, gpu::Mode::deterministic,
      test::run_on_toy({.timing = timing}, table, gpu::Mode::deterministic, random)};
  const Calibration found = calibrate(evidence_of({run}, Model::chain));
  CHECK(found.times.compute.value == 9'000);
  CHECK(found.times.reduce.value == 900);
  CHECK(found.times.fit == FitErrors{.runs = 1});
  CHECK_THROWS_AS(calibrate(evidence_of({}, Model::chain)), ContractViolation);
}

TEST_CASE("the refinement finds what no typical task shows") {
  // One compute phase in ten takes twice as long: the quartiles do not see it, the makespans do.
  test::Random random(88);
  const auto runs = toy_runs({.timing = kChain, .slow_one_in = 10}, random);
  double typical = 0;
  for (const CalibrationRun& run : runs) {
    if (run.mode != gpu::Mode::deterministic) continue;
    const auto predicted = static_cast<double>(sim::simulate(run.table, kChain).makespan);
    typical += 1 - predicted / static_cast<double>(span_of(run.run) + kChain.epilogue);
  }
  typical /= static_cast<double>(runs.size()) / 2;
  CHECK(typical > 0.08);
  const Calibration found = calibrate(evidence_of(runs, Model::chain));
  CHECK(found.times.fit.median_ppm < 40'000);
  CHECK(found.times.compute.value > kChain.compute + kChain.compute / 20);
}

}  // namespace
}  // namespace stagger::workbench
