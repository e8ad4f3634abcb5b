#include "schedules/schedule.hpp"
#include "sim/memory.hpp"
#include "tests/support/catch.hpp"
#include "workbench/calibration/calibration.hpp"

#include <cmath>
#include <utility>
#include <vector>

namespace stagger::workbench {
namespace {

constexpr Timing kUnloaded{.model = Model::overlap,
                           .compute = 3000,
                           .compute_partial = 3600,
                           .reduce = 1300,
                           .latency = 650,
                           .launch = 1500,
                           .epilogue = 900,
                           .next_lane = 1400};

/// A run in which hand-overs take longer the more SMs reduce, and compute phases while the clock
/// dips.
CalibrationRun congested_run(const Table& table, const Timing& timing) {
  const sim::Simulation played = sim::simulate_with_memory(table, timing);
  CalibrationRun made{.table = table, .run = {}, .q_elements = 1};
  Ticks lost = 0;
  for (Lane lane{0}; lane.value < table.lanes(); ++lane) {
    for (std::int64_t slot = table.begin_of(lane); slot < table.end_of(lane); ++slot) {
      const Ticks computes = played.compute_start[slot];
      const Ticks launch = table.begins_chain(lane, slot) ? timing.launch : 0;
      const Ticks longer = played.compute_longer.empty() ? 0 : played.compute_longer[slot];
      const Ticks turn = played.reduce_start[slot];
      lost += longer;
      made.run.times.push_back(
          {.compute_start = computes - launch,
           .compute_end =
               computes + timing.compute_of(table.problem, table.slots[slot].task) + longer,
           .turn = turn,
           .reduce_end = turn + timing.reduce});
    }
    made.run.lane_sms.push_back(played.lanes[lane].sm);
  }
  made.run.dip = {.ns = timing.memory->dip,
                  .lost_ns = lost / table.problem.sms,
                  .known = played.makespan >= 2 * timing.memory->dip};
  made.run.elapsed_ns = played.makespan;
  return made;
}

/// Runs of many schedules on a device whose L2 hands turns over as `timing` says.
std::vector<CalibrationRun> congested_runs(const Timing& timing) {
  std::vector<CalibrationRun> runs;
  for (const char* mask : {"full", "causal"}) {
    for (const std::int64_t n : {4, 8, 16}) {
      const Problem problem =
          make_problem(make_mask(mask), {n * 128, n * 128}, {.q = 64, .kv = 128}, 64 / n, 16);
      for (const char* name : {"shift", "symmetric-shift", "spt", "descending", "lpt-ascending"}) {
        const schedules::Selection selection = schedules::select(name);
        if (schedules::why_unsupported(selection, problem)) continue;
        runs.push_back(congested_run(schedules::build(selection, problem), timing));
      }
    }
  }
  REQUIRE(runs.size() > 20);
  return runs;
}

TEST_CASE("what a hand-over takes longer on a busy device is found, and told from the rest") {
  for (const Ticks congestion : {0, 700, 1'400}) {
    Timing timing = kUnloaded;
    timing.memory = Memory{.l2 = 1, .rate = 1, .tile = {}, .congestion = congestion};
    std::vector<CalibrationRun> runs = congested_runs(timing);
    const Calibration found = calibrate(evidence_of(runs, Model::overlap));
    REQUIRE(found.times.congestion.has_value());
    CAPTURE(congestion, found.times.congestion->value, found.times.latency.value);
    CHECK(std::abs(found.times.congestion->value - congestion) <= congestion / 8);
    CHECK(std::abs(found.times.latency.value - timing.latency) <= congestion / 12);
    CHECK(std::abs(found.times.compute.value - timing.compute) <= 30);
    CHECK(found.times.fit.median_ppm < 5'000);
    for (CalibrationRun& run : runs)
      run.q_elements = 0;  // a kernel that spins
    CHECK_FALSE(calibrate(evidence_of(runs, Model::overlap)).times.congestion.has_value());
  }
}

TEST_CASE("what chance adds to hand-overs is found, and told from their latency") {
  for (const Ticks spread : {0, 240, 480}) {
    Timing timing = kUnloaded;
    timing.memory = Memory{.l2 = 1, .rate = 1, .congestion = 300, .spread = spread};
    std::vector<CalibrationRun> runs = congested_runs(timing);
    const Calibration found = calibrate(evidence_of(runs, Model::overlap));
    REQUIRE(found.times.spread.has_value());
    CAPTURE(spread, found.times.spread->value, found.times.latency.value,
            found.times.congestion->value);
    CHECK(std::abs(found.times.spread->value - spread) <= 20 + spread / 8);
    CHECK(found.times.spread->low <= found.times.spread->value);
    CHECK(found.times.spread->value <= found.times.spread->high);
    CHECK(std::abs(found.times.latency.value - timing.latency) <= 40 + spread / 4);
    CHECK(found.times.fit.median_ppm < 10'000);
    for (CalibrationRun& run : runs)
      run.q_elements = 0;  // a kernel that spins
    CHECK_FALSE(calibrate(evidence_of(runs, Model::overlap)).times.spread.has_value());
  }
}

TEST_CASE("how the clock dips is found by what busy runs lose in it, and phases without it") {
  Timing timing = kUnloaded;
  timing.memory = Memory{.l2 = 1, .rate = 1, .congestion = 300};
  timing.memory->dip = 20 * timing.compute;
  for (const Ticks loss : {timing.memory->dip / 20, timing.memory->dip / 8}) {
    timing.memory->dip_loss = loss;
    std::vector<CalibrationRun> runs = congested_runs(timing);
    Timing steady = timing;
    steady.memory->dip_loss = 0;
    const Problem half = make_problem(make_mask("full"), {1'024, 1'024}, {64, 128}, 8, 8);
    runs.push_back(congested_run(schedules::build(schedules::select("shift"), half), steady));
    const Calibration found = calibrate(evidence_of(runs, Model::overlap));
    const Residual& on_half = found.residuals.back();
    CHECK(std::abs(on_half.predicted - on_half.measured) <= on_half.measured / 100);
    REQUIRE(found.times.dip.has_value());
    REQUIRE(found.times.dip_loss.has_value());
    CAPTURE(loss, found.times.dip_loss->value, found.times.compute.value,
            found.times.fit.median_ppm);
    CHECK(found.times.dip->value == timing.memory->dip);
    // Less than it is, as at first there is nobody who reduces.
    CHECK(std::abs(found.times.dip_loss->value - loss) <= loss / 4);
    CHECK(std::abs(found.times.compute.value - timing.compute) <= timing.compute / 100);
    CHECK(found.times.fit.median_ppm < 5'000);
    // A run that did not dip counts, and so does one that seems to have lost all of it.
    std::vector<CalibrationRun> mixed = runs;
    for (std::size_t run = 0; run < mixed.size(); ++run) {
      if (run % 8 != 0) mixed[run].run.dip = {.known = true};
    }
    CHECK(evidence_of(mixed, Model::overlap).shown.dip_loss.value().value == 0);
    for (CalibrationRun& run : mixed)
      run.run.dip = {.ns = timing.memory->dip, .lost_ns = timing.memory->dip, .known = true};
    const KernelTimes shown = evidence_of(mixed, Model::overlap).shown;
    CHECK(shown.dip_loss.value().value == timing.memory->dip / 2);
    // Runs too short to tell say nothing, nor do those that leave a third of the SMs idle.
    std::vector<CalibrationRun> others = runs;
    for (CalibrationRun& run : others)
      run.run.dip.known = false;
    CHECK_FALSE(evidence_of(others, Model::overlap).shown.dip.has_value());
    others = runs;
    for (CalibrationRun& run : others) {
      for (std::size_t task = 0; task < run.run.times.size(); task += 3)
        run.run.times[task].turn += timing.memory->dip;
    }
    CHECK_FALSE(evidence_of(others, Model::overlap).shown.dip.has_value());
    for (CalibrationRun& run : runs)
      run.q_elements = 0;  // a kernel that spins
    CHECK_FALSE(evidence_of(runs, Model::overlap).shown.dip_loss.has_value());
  }
}

TEST_CASE("chance that quartiles do not show is found by the makespans of tables in step") {
  // Stamps as of a spread, makespans as of twice that and a latency with as long a typical
  // hand-over.
  constexpr Ticks kSpread = 240;
  Timing shown = kUnloaded;
  shown.memory = Memory{.l2 = 1, .rate = 1, .congestion = 300, .spread = kSpread};
  Timing real = shown;
  real.latency -= 3 * kSpread / 4;
  real.memory->spread = 2 * kSpread;
  std::vector<CalibrationRun> runs = congested_runs(shown);
  const std::vector<CalibrationRun> longer = congested_runs(real);
  for (std::size_t run = 0; run < runs.size(); ++run) {
    const Ticks more = span_of(longer[run].run) - span_of(runs[run].run);
    runs[run].run.untimed_ns = runs[run].run.elapsed_ns + more;
    REQUIRE(span_of(runs[run].run) == span_of(longer[run].run));
  }
  const KernelTimes found = calibrate(evidence_of(runs, Model::overlap)).times;
  REQUIRE(found.spread.has_value());
  CAPTURE(found.spread->value, found.latency.value, found.fit.median_ppm);
  CHECK(std::abs(found.spread->value - 2 * kSpread) <= kSpread / 2);
  CHECK(found.spread->high < 3 * kSpread / 2);
  CHECK(std::abs(found.latency.value - real.latency) <= 100);
  CHECK(found.fit.median_ppm < 10'000);
}

}  // namespace
}  // namespace stagger::workbench
