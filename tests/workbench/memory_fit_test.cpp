#include "workbench/memory_fit.hpp"

#include "schedules/schedule.hpp"
#include "sim/memory.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random.hpp"

namespace stagger::workbench {
namespace {

constexpr TileBytes kTile{.q = 33'000, .dq = 32'768, .kv = 65'536, .gradient = 65'536};
constexpr Timing kTiming{.model = Model::overlap,
                         .compute = 2'086,
                         .reduce = 1'225,
                         .latency = 1'356,
                         .launch = 1'762,
                         .epilogue = 813};

/// Runs on a device whose memory is known, each a part in a hundred off at most.
std::vector<MemoryRun> runs_on(const Memory& memory, double noise, test::Random& random) {
  std::vector<MemoryRun> runs;
  const Problem problem =
      make_problem(make_mask("causal"), {3072, 3072}, {.q = 64, .kv = 128}, 64, 132);
  for (const char* name :
       {"windowed:heads=4", "windowed:heads=16", "windowed:heads=32", "windowed:heads=64"}) {
    Timing timing = kTiming;
    MemoryRun run{.table = schedules::build(schedules::select(name), problem, timing),
                  .timing = timing,
                  .tile = memory.tile};
    timing.memory = memory;
    const sim::Simulation simulation = sim::simulate(run.table, timing);
    const double exact =
        static_cast<double>(sim::play_memory(run.table, timing, simulation).last_reduction);
    const double off = noise * (static_cast<double>(random.between(0, 200)) / 100 - 1);
    run.measured = static_cast<Ticks>(exact * (1 + off));
    runs.push_back(std::move(run));
  }
  return runs;
}

TEST_CASE("a memory is found again from the times of runs on it") {
  test::Random random(91);
  const Memory memory{.l2 = 44'000'000, .rate = 3'700, .tile = kTile};
  const auto [found, residuals] = fit_memory(runs_on(memory, 0, random));
  CHECK(std::abs(static_cast<double>(found.l2_bytes) / 44e6 - 1) < 0.05);
  CHECK(std::abs(static_cast<double>(found.bytes_per_ns) / 3'700 - 1) < 0.03);
  CHECK(found.fit.runs == 4);
  CHECK(found.fit.worst_ppm < 10'000);
  REQUIRE(residuals.size() == 4);
  for (const Residual& residual : residuals) {
    const double off = static_cast<double>(residual.predicted - residual.measured);
    CHECK(std::abs(off) < 0.01 * static_cast<double>(residual.measured));
  }
}

TEST_CASE("noise of a per cent moves the memory by some per cent") {
  test::Random random(92);
  const Memory memory{.l2 = 30'000'000, .rate = 2'500, .tile = kTile};
  const DeviceMemory found = fit_memory(runs_on(memory, 0.01, random)).memory;
  CHECK(std::abs(static_cast<double>(found.l2_bytes) / 30e6 - 1) < 0.15);
  CHECK(std::abs(static_cast<double>(found.bytes_per_ns) / 2'500 - 1) < 0.15);
}

TEST_CASE("the heads in flight of the calibration's tables rise to all of them") {
  const std::vector<Table> tables = memory_calibration_set({.q = 64, .kv = 128}, 132, 128, kTiming);
  REQUIRE(tables.size() > 6);
  CHECK(tables.front().name == "windowed:heads=2");
  CHECK(tables.back().name == "windowed:heads=" + std::to_string(tables.back().problem.heads));
  std::int64_t before = 0;
  for (const Table& table : tables) {
    if (table.name == "windowed:heads=2") before = 0;
    Timing timing = kTiming;
    timing.memory = Memory{.l2 = 1, .rate = 1'000, .tile = kTile};
    const auto played = sim::play_memory(table, timing, sim::simulate(table, timing));
    CAPTURE(table.name, before);
    // Small windows have too few chains for all SMs: the next ones are begun beside them.
    if (played.in_flight > 40 * kTile.dq * 16) CHECK(played.in_flight > before);
    before = played.in_flight;
  }
  CHECK(before > std::int64_t{120} << 20);
}

}  // namespace
}  // namespace stagger::workbench
