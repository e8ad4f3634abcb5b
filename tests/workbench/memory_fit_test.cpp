#include "workbench/calibration/memory_fit.hpp"

#include "schedules/schedule.hpp"
#include "sim/memory.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/golden.hpp"
#include "tests/support/random.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <sstream>
#include <utility>
#include <vector>

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
      make_problem(make_mask("causal"), {1536, 1536}, {.q = 64, .kv = 128}, 64, 33);
  for (const char* name : {"windowed:heads=4", "windowed:heads=16", "windowed:heads=24",
                           "windowed:heads=32", "windowed:heads=48", "windowed:heads=64"}) {
    Timing timing = kTiming;
    MemoryRun run{.table = schedules::build(schedules::select(name), problem, timing),
                  .timing = timing};
    timing.memory = run.timing.memory = memory;
    const double exact = static_cast<double>(sim::play_memory(run.table, timing).last_reduction);
    const double off = noise * (static_cast<double>(random.between(0, 200)) / 100 - 1);
    run.measured = static_cast<Ticks>(exact * (1 + off));
    runs.push_back(std::move(run));
  }
  return runs;
}

TEST_CASE("a memory is found again from the times of runs on it") {
  test::Random random(91);
  const Memory memory{.l2 = 22'000'000,
                      .rate = 900,
                      .tile = kTile,
                      .latency = 400,
                      .congestion = 300,
                      .spread = 150};
  const auto [found, residuals] = fit_memory(runs_on(memory, 0, random));
  // Another size throws out other tiles, by chance: six runs do not tell it more exactly.
  CHECK(std::abs(static_cast<double>(found.l2_bytes) / 22e6 - 1) < 0.3);
  CHECK(std::abs(static_cast<double>(found.bytes_per_ns) / 900 - 1) < 0.1);
  CHECK(found.latency_ns == 400);
  CHECK(found.fit.runs == 6);
  CHECK(found.fit.worst_ppm < 10'000);
  REQUIRE(residuals.size() == 6);
  for (const Residual& residual : residuals) {
    const double off = static_cast<double>(residual.predicted - residual.measured);
    CHECK(std::abs(off) < 0.02 * static_cast<double>(residual.measured));
  }
}

TEST_CASE("noise of a per cent moves the memory by some per cent") {
  test::Random random(92);
  const Memory memory{.l2 = 15'000'000, .rate = 600, .tile = kTile};
  const DeviceMemory found = fit_memory(runs_on(memory, 0.01, random)).memory;
  CHECK(std::abs(static_cast<double>(found.l2_bytes) / 15e6 - 1) < 0.3);
  CHECK(std::abs(static_cast<double>(found.bytes_per_ns) / 600 - 1) < 0.15);
}

/// Runs of a few large tiles in two groups, the second on a device whose phases take a fifth more.
std::vector<MemoryRun> grouped_runs(const Memory& memory, test::Random& random) {
  std::vector<MemoryRun> runs;
  for (const int group : {3, 8}) {
    const Problem problem = make_problem(make_mask("causal"), {768, 768}, {.q = 128, .kv = 128},
                                         group == 3 ? 16 : 24, 10);
    for (const char* name : {"windowed:heads=2", "windowed:heads=4", "windowed:heads=16"}) {
      MemoryRun run{.table = schedules::build(schedules::select(name), problem, kTiming),
                    .timing = kTiming,
                    .group = group};
      run.timing.memory = memory;
      const Timing& timing = run.timing;
      const auto exact = static_cast<double>(sim::play_memory(run.table, timing).last_reduction);
      const double off = 1 + static_cast<double>(random.between(-30, 30)) / 1'000;
      run.measured = static_cast<Ticks>(exact * off * (group == 3 ? 1 : 1.2));
      runs.push_back(std::move(run));
    }
  }
  return runs;
}

/// What a memory makes of the runs, by a play of each: what it predicts, and how far that is off
/// once the runs of each group with at most twice its least traffic are right in the median.
struct Judgement {
  std::vector<Ticks> predicted;
  std::vector<double> errors;
  double mean_square = 0;
};

Judgement judge(const std::vector<MemoryRun>& runs, std::int64_t l2, std::int64_t rate) {
  Judgement judgement;
  std::vector<std::int64_t> traffic;
  for (const MemoryRun& run : runs) {
    Timing timing = run.timing;
    timing.memory = Memory{.l2 = l2, .rate = rate, .tile = run.timing.memory->tile};
    const auto play = sim::play_memory(run.table, timing);
    judgement.predicted.push_back(play.last_reduction);
    traffic.push_back(play.read + play.written);
  }
  for (std::size_t run = 0; run < runs.size(); ++run) {
    std::int64_t least = traffic[run];
    for (std::size_t other = 0; other < runs.size(); ++other) {
      if (runs[other].group == runs[run].group) least = std::min(least, traffic[other]);
    }
    std::vector<double> ratios;
    for (std::size_t other = 0; other < runs.size(); ++other) {
      if (runs[other].group != runs[run].group || traffic[other] > 2 * least) continue;
      ratios.push_back(static_cast<double>(runs[other].measured) /
                       static_cast<double>(judgement.predicted[other]));
    }
    std::sort(ratios.begin(), ratios.end());
    judgement.errors.push_back(ratios[ratios.size() / 2] *
                                   static_cast<double>(judgement.predicted[run]) /
                                   static_cast<double>(runs[run].measured) -
                               1);
    judgement.mean_square += judgement.errors.back() * judgement.errors.back();
  }
  return judgement;
}

TEST_CASE("the memory that is found is judged as it says, and no other one is better") {
  test::Random random(93);
  constexpr std::int64_t kMi = std::int64_t{1} << 20;
  const Memory memory{.l2 = 70 * kMi,
                      .rate = 2'600,
                      .tile = {.q = kMi / 2, .dq = 2 * kMi, .kv = kMi, .gradient = kMi}};
  const std::vector<MemoryRun> runs = grouped_runs(memory, random);
  const auto [found, residuals] = fit_memory(runs);
  const Judgement best = judge(runs, found.l2_bytes, found.bytes_per_ns);
  std::vector<double> errors;
  REQUIRE(residuals.size() == runs.size());
  for (std::size_t run = 0; run < runs.size(); ++run) {
    CHECK(residuals[run].measured == runs[run].measured);
    CHECK(residuals[run].predicted == best.predicted[run]);
    errors.push_back(1e6 * std::abs(best.errors[run]));
  }
  std::sort(errors.begin(), errors.end());
  CHECK(std::abs(static_cast<double>(found.fit.worst_ppm) - errors.back()) < 1.5);
  CHECK(std::abs(static_cast<double>(found.fit.median_ppm) - errors[errors.size() / 2]) < 1.5);
  CHECK(found.fit.runs == 6);
  CHECK(found.fit.worst_ppm > 1'000);
  // Beside sizes from 4 to 256 MiB in steps of a quarter and rates in steps of 2 %, of which chance
  // makes few better than the best of a coarser grid and its neighbours, and none much.
  std::vector<std::int64_t> sizes;
  for (std::int64_t size = 4 * kMi; size <= 256 * kMi; size += size / 4)
    sizes.push_back(size);
  CHECK(sizes.size() == 19);
  std::int64_t worse = 0;
  for (const std::int64_t size : sizes) {
    std::int64_t step = 0;
    for (std::int64_t rate = 20'000; rate >= 500; rate -= std::max<std::int64_t>(rate / 50, 1)) {
      if (++step % 8 != size / kMi % 8) continue;  // an eighth of them, others for each size
      const Judgement other = judge(runs, size, rate);
      CAPTURE(size, rate, found.l2_bytes, found.bytes_per_ns);
      REQUIRE(other.mean_square > 0.7 * best.mean_square);
      worse += other.mean_square > best.mean_square + 1e-9 ? 1 : 0;
    }
  }
  CHECK(worse > 350);
}

TEST_CASE("a fit tells how far it is, never less than before, and ends nearly done") {
  test::Random random(94);
  constexpr std::int64_t kMi = std::int64_t{1} << 20;
  const Memory memory{.l2 = 70 * kMi,
                      .rate = 2'600,
                      .tile = {.q = kMi / 2, .dq = 2 * kMi, .kv = kMi, .gradient = kMi}};
  std::vector<double> told;
  static_cast<void>(
      fit_memory(grouped_runs(memory, random), [&](double fraction) { told.push_back(fraction); }));
  // Sizes from 8 to 256 MiB in steps of a quarter, then the neighbours of the three best.
  std::int64_t sizes = 0;
  for (std::int64_t size = 8 * kMi; size <= 256 * kMi; size += size / 4)
    ++sizes;
  REQUIRE(std::ssize(told) == sizes + 3);
  CHECK(told.front() == 0);
  CHECK(std::ranges::is_sorted(told));
  for (std::int64_t place = 0; place < 3; ++place)
    CHECK(told[static_cast<std::size_t>(sizes + place)] ==
          Approx(0.7 + 0.1 * static_cast<double>(place)));
}

TEST_CASE("memories that are found in noise are as kept") {
  constexpr std::int64_t kMi = std::int64_t{1} << 20;
  std::ostringstream text;
  for (std::uint32_t seed = 1; seed <= 4; ++seed) {
    test::Random random(seed);
    const Memory memory{.l2 = (20 + 13 * std::int64_t{seed}) * kMi,
                        .rate = 900 + 400 * std::int64_t{seed},
                        .tile = {.q = kMi / 2, .dq = 2 * kMi, .kv = kMi, .gradient = kMi}};
    const auto [found, residuals] = fit_memory(grouped_runs(memory, random));
    text << memory.l2 << " at " << memory.rate << ": " << found.l2_bytes << " at "
         << found.bytes_per_ns << ", off " << found.fit.median_ppm << " " << found.fit.worst_ppm;
    for (const Residual& residual : residuals)
      text << " " << residual.measured << "/" << residual.predicted;
    text << "\n";
  }
  CHECK(test::golden_difference("memory-fits.txt", text.str()) == "");
}

TEST_CASE("the heads in flight of the calibration's tables rise to all of them") {
  const std::vector<Table> tables = memory_calibration_set({.q = 64, .kv = 128}, 132, 128, kTiming);
  REQUIRE(tables.size() > 6);
  CHECK(tables.front().name.starts_with("windowed:heads=2,q="));
  CHECK(tables.back().name.starts_with(
      "windowed:heads=" + std::to_string(tables.back().problem.heads) + ",q="));
  std::int64_t before = 0;
  for (const Table& table : tables) {
    if (table.name.starts_with("windowed:heads=2,")) before = 0;
    Timing timing = kTiming;
    timing.memory = Memory{.l2 = 1, .rate = 1'000, .tile = kTile};
    const auto played = sim::play_memory(table, timing);
    CAPTURE(table.name, before);
    // Small windows have too few chains for all SMs: the next ones are begun beside them.
    if (played.in_flight > 40 * kTile.dq * 16) CHECK(played.in_flight > before);
    before = played.in_flight;
  }
  CHECK(before > std::int64_t{120} << 20);
}

TEST_CASE("dQ of the calibration's heads is 160 MiB, of eight heads at least") {
  const auto heads_of = [](const TileShape& tile, std::int64_t head_dim) {
    std::vector<std::pair<std::int64_t, std::int32_t>> heads;  // with the KV tiles, by windows
    for (const Table& table : memory_calibration_set(tile, 16, head_dim, kTiming))
      heads.emplace_back(table.problem.kv_tiles(), table.problem.heads);
    return heads;
  };
  // 3072 and 9216 tokens of 128 floats: 106 and 35 heads, in windows of 2, 4, ... 64 and all of
  // them, and of 2, ... 32 and all.
  std::vector<std::pair<std::int64_t, std::int32_t>> want(7, {24, 106});
  want.insert(want.end(), 6, {72, 35});
  CHECK(heads_of({.q = 64, .kv = 128}, 128) == want);
  // 24576 of 512 are 48 MiB each.
  want.assign(3, {24, 8});
  want.insert(want.end(), 3, {72, 8});
  CHECK(heads_of({.q = 1024, .kv = 1024}, 512) == want);
}

}  // namespace
}  // namespace stagger::workbench
