// Calibration runs on a GPU that there is not: a toy device, and one that notes what it was asked.

#include "core/error.hpp"
#include "schedules/schedule.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/toy_device.hpp"
#include "workbench/calibration/runs.hpp"
#include "workbench/calibration/set.hpp"

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

namespace stagger::workbench {
namespace {

struct Call {
  std::string table;
  gpu::BackwardOptions options;
};
std::vector<Call> calls;

/// A device whose first run of every four warms up; the others take 9, 1 and 7 more than 1,000, and
/// their stamps cost 30, 10 and 20.
gpu::Backward calibrated_device(const Table& table, const gpu::Attention& attention,
                                const gpu::BackwardOptions& options) {
  constexpr std::int64_t kElapsed[] = {5, 9, 1, 7};
  constexpr std::int64_t kCosts[] = {500, 30, 10, 20};
  const std::size_t turn = calls.size() % 4;
  calls.push_back({table.name, options});
  gpu::Backward run;
  run.times.resize(table.slots.size());
  run.gradients.dq.resize(attention.shape.q_elements());
  run.dq_sums = run.gradients.dq;
  run.elapsed_ns = 1'000 + kElapsed[turn];
  run.untimed_ns = run.elapsed_ns - kCosts[turn];
  return run;
}

Kernel kernel_of_device(gpu::Device on_cuda) {
  return {.name = "fake",
          .summary = "",
          .model = Model::overlap,
          .on_cpu = nullptr,
          .on_cuda = on_cuda,
          .untimed = nullptr,
          .passes = false,
          .cut_partial = false,
          .steps = nullptr};
}

TEST_CASE("every table is measured by its run of median length, and problems without reductions") {
  const Kernel kernel = kernel_of_device(calibrated_device);
  CalibrationRequest request{.kernel = &kernel,
                             .dtype = gpu::Dtype::bf16,
                             .head_dim = 3,
                             .tile = {2, 2},
                             .timeout = std::chrono::milliseconds(77)};
  std::vector<double> told;
  request.progress = [&](double fraction) { told.push_back(fraction); };
  calls.clear();
  const std::vector<CalibrationRun> runs = measure(request, 5);
  const std::vector<Table> tables = calibration_set(request.tile, 5);
  REQUIRE(told.size() == tables.size());
  std::size_t next = 0;
  const Table* last = nullptr;
  for (std::size_t index = 0; index < tables.size(); ++index) {
    const Table& table = tables[index];
    CHECK(told[index] == Approx(static_cast<double>(index) / static_cast<double>(tables.size())));
    const bool is_new =
        last == nullptr || last->problem.common_grid() != table.problem.common_grid();
    for (const gpu::Mode mode : {gpu::Mode::no_reduce, gpu::Mode::deterministic}) {
      if (mode == gpu::Mode::no_reduce && !is_new) continue;
      REQUIRE(next < runs.size());
      const CalibrationRun& run = runs[next];
      CAPTURE(index, next, table.name);
      CHECK(run.table.slots == table.slots);
      CHECK(run.mode == mode);
      CHECK(run.run.elapsed_ns == 1'007);
      CHECK(run.run.untimed_ns == 1'007 - 20);
      CHECK(run.run.gradients.dq.empty());
      CHECK(run.run.dq_sums.empty());
      CHECK(run.q_elements == table.problem.heads * table.problem.lengths.q * 3);
      for (std::size_t call = 4 * next; call < 4 * next + 4; ++call) {
        REQUIRE(call < calls.size());
        CHECK(calls[call].table == table.name);
        CHECK(calls[call].options.mode == mode);
        CHECK(calls[call].options.dtype == gpu::Dtype::bf16);
        CHECK(calls[call].options.timeout == std::chrono::milliseconds(77));
      }
      ++next;
    }
    last = &table;
  }
  CHECK(next == runs.size());
  CHECK(calls.size() == 4 * next);
}

TEST_CASE("what stamps cost is left out only where a kernel knows it") {
  const Kernel kernel = kernel_of_device(
      [](const Table& table, const gpu::Attention& attention, const gpu::BackwardOptions& options) {
        gpu::Backward run = calibrated_device(table, attention, options);
        run.untimed_ns = 0;
        return run;
      });
  CalibrationRequest request{.kernel = &kernel, .head_dim = 1, .tile = {1, 1}};
  calls.clear();
  for (const CalibrationRun& run : measure(request, 2))
    CHECK(run.run.untimed_ns == 0);
}

TEST_CASE("a kernel may take a ns without its stamps, and its cost is the median run's") {
  const Kernel kernel = kernel_of_device(
      [](const Table& table, const gpu::Attention& attention, const gpu::BackwardOptions& options) {
        gpu::Backward run = calibrated_device(table, attention, options);
        if (run.elapsed_ns == 1'007) run.untimed_ns = 1;
        return run;
      });
  CalibrationRequest request{.kernel = &kernel, .head_dim = 1, .tile = {1, 1}};
  calls.clear();
  for (const CalibrationRun& run : measure(request, 2))
    CHECK(run.run.untimed_ns == 1'007 - 30);  // of 30, 10 and 1,006
}

TEST_CASE("a calibration run that does not finish is the device's error, and named") {
  const Kernel kernel = kernel_of_device(
      [](const Table& table, const gpu::Attention& attention, const gpu::BackwardOptions& options) {
        gpu::Backward run = calibrated_device(table, attention, options);
        if (calls.size() == 6) run.outcome = gpu::Outcome::timeout;
        return run;
      });
  CalibrationRequest request{.kernel = &kernel, .head_dim = 1, .tile = {1, 1}};
  calls.clear();
  try {
    static_cast<void>(measure(request, 2));
    FAIL("it went on");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::device);
    const std::string words = error.what();
    CHECK(words.starts_with(calls.back().table + " on full, 5 KV x 5 Q tiles"));
    CHECK(words.ends_with(" did not finish within the timeout"));
  }
}

TEST_CASE("runs for the memory are by the ranks, in groups of one number of heads") {
  const Kernel kernel = kernel_of_device(
      [](const Table& table, const gpu::Attention& attention, const gpu::BackwardOptions& options) {
        gpu::Backward run = calibrated_device(table, attention, options);
        run.times.back().reduce_end = 10 * table.problem.heads + 3;
        run.untimed_ns = run.elapsed_ns - 2;
        return run;
      });
  const CalibrationRequest request{
      .kernel = &kernel, .dtype = gpu::Dtype::bf16, .head_dim = 3, .tile = {2, 4}};
  std::vector<Table> tables;
  for (const auto& [heads, name] : {std::pair(2, "spt"), std::pair(2, "descending"),
                                    std::pair(5, "spt"), std::pair(2, "spt")}) {
    tables.push_back(schedules::build(
        schedules::select(name), make_problem(make_mask("full"), {8, 8}, request.tile, heads, 3)));
  }
  const KernelTimes times{.steps = 2,
                          .compute = {.value = 77},
                          .congestion = MeasuredNs{.value = 5},
                          .spread = MeasuredNs{.value = 6}};
  const DeviceMemory known{.stream_bytes_per_ns = 9, .add_permille = 7, .latency_ns = 8};
  calls.clear();
  const std::vector<MemoryRun> runs = measure_memory(request, tables, times, known);
  REQUIRE(runs.size() == tables.size());
  REQUIRE(calls.size() == 4 * tables.size());
  constexpr int kGroups[] = {0, 0, 1, 2};
  for (std::size_t run = 0; run < runs.size(); ++run) {
    CAPTURE(run);
    CHECK(runs[run].table.slots == tables[run].slots);
    CHECK(runs[run].timing.compute == 77);
    CHECK(runs[run].timing.steps == 2);
    CHECK(runs[run].timing.memory->congestion == 5);
    CHECK(runs[run].timing.memory->spread == 6);
    CHECK(runs[run].timing.memory->latency == 8);
    CHECK(runs[run].timing.memory->add_permille == 7);
    CHECK(runs[run].timing.memory->stream_rate == 9);
    CHECK(runs[run].group == kGroups[run]);
    CHECK(runs[run].measured == 10 * tables[run].problem.heads + 3 - 2);
    // Two rows of 3 numbers of 2 bytes each, lse and D; 3 sums of 4 bytes; two rows a key.
    CHECK(runs[run].timing.memory->tile ==
          TileBytes{.q = 2 * (12 + 8), .dq = 2 * 12, .kv = 4 * 12, .gradient = 48});
    CHECK(calls[4 * run].options.mode == gpu::Mode::deterministic);
  }
}

/// Every table of a set on a toy device, by the ranks.
std::vector<CalibrationRun> toy_runs(const Timing& timing) {
  test::Random random(5);
  std::vector<CalibrationRun> runs;
  for (const Table& table : calibration_set({4, 4}, 4)) {
    if (table.dispatch != Dispatch::static_) continue;
    runs.push_back({table, gpu::Mode::deterministic,
                    test::run_on_toy({.timing = timing, .start = 50}, table,
                                     gpu::Mode::deterministic, random)});
  }
  return runs;
}

TEST_CASE("of a kernel that spins the profile has what the machine adds, phase by phase") {
  // It spins for 5, 6, 1, 2 and 1 ticks of 100 ns.
  const Timing added{
      .compute = 31, .compute_partial = 43, .reduce = 17, .launch = 11, .epilogue = 9};
  Timing timing = added;
  timing.compute += 500;
  *timing.compute_partial += 600;
  timing.reduce += 100;
  timing.latency = 60;
  timing.launch += 200;
  timing.epilogue += 100;
  CalibrationRequest request{
      .kernel = &workbench::kernel_of("replay"), .tile = {4, 4}, .tick_ns = 100};
  const std::vector<CalibrationRun> runs = toy_runs(timing);
  const KernelTimes spins = calibrate(request, evidence_of(request, runs)).times;
  CHECK(spins.compute.value == added.compute);
  REQUIRE(spins.compute_partial.has_value());
  CHECK(spins.compute_partial->value == *added.compute_partial);
  CHECK(spins.reduce.value == added.reduce);
  CHECK(spins.latency.value == 60);
  CHECK(spins.launch.value == added.launch);
  CHECK(spins.epilogue.value == added.epilogue);
  CHECK(spins.reduce.low == added.reduce);
  CHECK(spins.reduce.high == added.reduce);
  CHECK(spins.key == KernelKey{.kernel = "replay"});

  request.kernel = &workbench::kernel_of("portable");
  const KernelTimes computes = calibrate(request, evidence_of(request, runs)).times;
  CHECK_FALSE(computes.cut_partial);
  CHECK(computes.compute.value == timing.compute);
  CHECK(computes.key ==
        KernelKey{.kernel = "portable", .dtype = "fp32", .head_dim = 64, .tile = {4, 4}});

  Kernel steps = kernel_of_device(calibrated_device);
  steps.cut_partial = true;
  steps.steps = [](std::int64_t head_dim, const TileShape& tile) {
    return static_cast<std::int32_t>(head_dim + tile.q - tile.kv);
  };
  const KernelTimes in_steps =
      calibrate(
          CalibrationRequest{.kernel = &steps, .head_dim = 2, .tile = {5, 4}},
          evidence_of(CalibrationRequest{.kernel = &steps, .head_dim = 2, .tile = {5, 4}}, runs))
          .times;
  CHECK(in_steps.steps == 3);
  CHECK(in_steps.timing().cut_partial);

  request.kernel = &workbench::kernel_of("replay");
  request.tick_ns = 1'000;  // more than anything took
  CHECK(calibrate(request, evidence_of(request, runs)).times.compute.value == 0);
}

}  // namespace
}  // namespace stagger::workbench
