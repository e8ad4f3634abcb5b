// Time models, calibrations and their tables, kept in tests/golden/models.txt and
// calibrations.txt: which number of a profile or of a request becomes which of a model, and what a
// fit makes of noisy times of a toy device.

#include "core/error.hpp"
#include "core/table_digest.hpp"
#include "schedules/schedule.hpp"
#include "sim/simulate.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/golden.hpp"
#include "tests/support/kept.hpp"
#include "tests/support/random.hpp"
#include "tests/support/toy_device.hpp"
#include "workbench/attention_backward.hpp"
#include "workbench/calibration/calibration.hpp"
#include "workbench/calibration/irregular.hpp"
#include "workbench/calibration/memory_fit.hpp"
#include "workbench/calibration/set.hpp"
#include "workbench/prediction.hpp"
#include "workbench/time_model.hpp"

#include <iomanip>
#include <sstream>
#include <string>
#include <vector>

namespace stagger::workbench {
namespace {

std::ostream& operator<<(std::ostream& text, const MeasuredNs& ns) {
  return text << ns.value << " (" << ns.low << " to " << ns.high << " of " << ns.samples << ")";
}

std::string words_of(const Timing& timing) {
  std::ostringstream text;
  text << model_name(timing.model) << " c" << timing.compute << " p"
       << timing.compute_partial.value_or(-1) << " r" << timing.reduce << " l" << timing.latency
       << " b" << timing.launch << " e" << timing.epilogue << " kv" << timing.reduce_kv
       << (timing.reduce_kv_async ? "a" : "") << " " << release_name(timing.release) << " on "
       << timing.residency;
  if (timing.memory) {
    const Memory& memory = *timing.memory;
    text << " L2 " << memory.l2 << " at " << memory.rate << " of " << memory.tile.q << " "
         << memory.tile.dq << " " << memory.tile.kv << " " << memory.tile.gradient;
  }
  return text.str();
}

std::string words_of(const TimeModel& model) {
  std::ostringstream text;
  text << words_of(model.timing) << ", " << model.unit() << " " << model.machine << " "
       << describe(model.kernel) << " start " << model.start << " passes " << model.passes
       << " whole " << model.elapsed(1'000);
  return text.str();
}

KernelTimes times_of(KernelKey key, Ticks around) {
  return {.key = std::move(key),
          .model = Model::overlap,
          .release = Release::delayed,
          .compute = {.value = 10 * around},
          .compute_partial = MeasuredNs{.value = 12 * around},
          .reduce = {.value = 4 * around},
          .latency = {.value = 3 * around},
          .launch = {.value = 2 * around},
          .epilogue = {.value = around},
          .start = {.value = 7 * around},
          .passes_per_mi = MeasuredNs{.value = 500 * around}};
}

KernelKey hopper(std::int64_t head_dim, TileShape tile) {
  return {.kernel = "hopper", .dtype = "bf16", .head_dim = head_dim, .tile = tile};
}

Machine machine_of(bool memory) {
  Machine machine{.name = "toy", .device = "a toy", .driver = "1", .sms = 6};
  machine.kernels = {times_of(hopper(64, {.q = 64, .kv = 128}), 100),
                     times_of(hopper(64, {.q = 128, .kv = 128}), 190),
                     times_of(hopper(128, {.q = 64, .kv = 128}), 170),
                     times_of({.kernel = "replay"}, 10)};
  machine.kernels.back().passes_per_mi.reset();
  if (memory) machine.kernels.back().compute_partial.reset();
  if (memory) machine.memory = DeviceMemory{.l2_bytes = 1 << 20, .bytes_per_ns = 900};
  return machine;
}

Problem problem_of(std::int64_t sms, Combine combine = Combine::none) {
  Grouping grouping{.heads_kv = 2, .span = combine == Combine::none ? 2 : 1, .combine = combine};
  return make_problem(make_mask("causal"), {1'024, 1'024}, {.q = 64, .kv = 128}, 4, sms, grouping);
}

TEST_CASE("time models are as kept, whatever is given of them") {
  std::ostringstream text;
  const GivenTiming givens[] = {{},
                                {.model = Model::overlap, .compute = 7, .reduce = 3},
                                {.compute_partial = 9, .latency = 2, .launch = 4, .epilogue = 5},
                                {.reduce_kv = 11},
                                {.reduce_kv_async = true},
                                {.release = Release::delayed, .l2 = 4'096, .bandwidth = 17},
                                {.l2 = 4'096},
                                {.bandwidth = 17},
                                {.compute = (std::int64_t{1} << 60) / 1'000 + 1}};
  for (std::size_t given = 0; given < std::size(givens); ++given) {
    for (int options = 0; options < 16; ++options) {
      const Problem problem = problem_of((options & 1) != 0 ? 9 : 5,
                                         (options & 2) != 0 ? Combine::ordered : Combine::none);
      TimeRequest request{.given = givens[given]};
      request.kernel = (options & 4) != 0 ? KernelKey{.kernel = "replay"} : hopper(64, {});
      if ((options & 8) != 0) request.machine = machine_of((options & 1) != 0);
      request.residency = static_cast<std::int32_t>(given % 3) * 3;
      text << given << " " << options << ": ";
      try {
        text << words_of(time_model_of(request, problem)) << "\n";
      } catch (const Error& error) {
        text << static_cast<int>(error.kind()) << " " << error.what() << "\n";
      }
    }
  }
  CHECK(test::golden_difference("models.txt", text.str()) == "");
}

TEST_CASE("passes take what they move: parts of dK and dV, where there are several, too") {
  const Machine machine = machine_of(/*memory=*/false);
  const auto passes = [&](std::int64_t heads_kv, std::int64_t span, Combine combine) {
    const Problem problem =
        make_problem(make_mask("causal"), {2'048, 1'024}, {.q = 64, .kv = 128}, 8, 9,
                     {.heads_kv = heads_kv, .span = span, .combine = combine});
    return time_model_of(machine, machine.kernels.front(), problem, {}).passes;
  };
  // 50 us a Mi elements of Q, of which 8 heads have one: 10 bytes each.
  const Ticks of_q = 50'000;
  CHECK(passes(8, 1, Combine::partials) == of_q);
  CHECK(passes(2, 4, Combine::partials) == of_q);
  CHECK(passes(2, 1, Combine::ordered) == of_q);
  // Half as many keys: dK and dV of 8 parts are 2 MiB, and those of 2 KV heads half a MiB.
  const auto bytes = [](std::int64_t elements) { return 4 * 65'536 * elements; };
  for (const std::int64_t span : {1, 2}) {
    const auto moved = static_cast<double>(bytes(8 / span) + bytes(2));
    CHECK(passes(2, span, Combine::partials) ==
          Approx(of_q * (1 + moved / (10 << 20))).margin(1.0));
  }
}

TEST_CASE("what a machine predicts of runs is as kept") {
  std::ostringstream text;
  for (const bool memory : {false, true}) {
    const Machine machine = machine_of(memory);
    for (int options = 0; options < 16; ++options) {
      MeasuredRun run{.source = "run", .problem = problem_of((options & 1) != 0 ? 9 : 4)};
      run.schedule = (options & 2) != 0 ? "spt" : "descending";
      run.kernel =
          (options & 4) != 0 ? KernelKey{.kernel = "replay"} : hopper(64, {.q = 64, .kv = 128});
      run.spun = {.compute = 5, .reduce = 2, .launch = 3, .epilogue = 1};
      run.tick_ns = 100;
      if ((options & 8) != 0) run.timing.residency = 3;
      if ((options & 10) == 10) run.timing.release = Release::delayed;
      text << memory << " " << options << ": ";
      try {
        const Predicted predicted = predict(machine, run);
        text << predicted.last_reduction << " " << predicted.elapsed.value_or(-1) << " " << std::hex
             << predicted.table << std::dec << "\n";
      } catch (const Error& error) {
        text << error.what() << "\n";
      }
    }
  }
  block::Transformer model{.name = "toy", .hidden = 512, .heads = 4, .heads_kv = 2};
  model.head_dim = 64;
  model.seq = 1'024;
  for (int options = 0; options < 32; ++options) {
    constexpr block::Attention kAttentions[] = {block::Attention::full, block::Attention::causal,
                                                block::Attention::sliding};
    model.attention = kAttentions[options % 3];
    model.window = 200;
    model.batch = 1 + options % 2;
    AttentionBackwardRequest request{.schedule = (options & 4) != 0 ? "symmetric-shift" : "spt",
                                     .machine = machine_of((options & 1) != 0)};
    if ((options & 8) != 0) request.tile_q = 128;
    if ((options & 16) != 0) request.tile_kv = (options & 2) != 0 ? 128 : 64;
    text << "block " << options << ": ";
    try {
      const AttentionBackward found = attention_backward(model, request);
      text << found.schedule << " " << describe(found.kernel) << " " << found.ns << "\n";
    } catch (const Error& error) {
      text << static_cast<int>(error.kind()) << " " << error.what() << "\n";
    }
  }
  CHECK(test::golden_difference("predictions.txt", text.str()) == "");
}

void add_tables(std::ostringstream& text, const std::vector<Table>& tables) {
  for (const Table& table : tables) {
    if (!test::is_kept(table.name)) continue;
    text << "  " << table.name << " on " << describe(table.problem) << " " << std::hex
         << table_digest(table) << std::dec << "\n";
  }
}

TEST_CASE("the tables of calibrations are as kept") {
  std::ostringstream text;
  for (const std::int32_t sms : {1, 7, 132}) {
    text << "small, " << sms << "\n";
    add_tables(text, calibration_set({.q = 64, .kv = 128}, sms));
    text << "large, " << sms << "\n";
    add_tables(text, large_calibration_set({.q = 64, .kv = 128}, sms, 128));
  }
  const Problem problem = make_problem(make_mask("causal"), {24, 20}, {.q = 4, .kv = 4}, 3, 4);
  std::vector<Table> irregular;
  for (std::uint64_t seed = 1; seed <= 6; ++seed)
    irregular.push_back(irregular_table(problem, seed));
  add_tables(text, irregular);
  text << "memory\n";
  add_tables(text, memory_calibration_set({.q = 64, .kv = 128}, 16, 128, {.compute = 9}));
  CHECK(test::golden_difference("calibration-tables.txt", text.str()) == "");
}

void add_fit(std::ostringstream& text, const Calibration& found) {
  const KernelTimes& times = found.times;
  text << model_name(times.model) << ": compute " << times.compute << ", partial "
       << times.compute_partial.value_or(MeasuredNs{}) << ", reduce " << times.reduce
       << ", latency " << times.latency << ", launch " << times.launch << ", epilogue "
       << times.epilogue << ", start " << times.start << ", passes "
       << times.passes_per_mi.value_or(MeasuredNs{}) << ", off " << times.fit.median_ppm << " "
       << times.fit.worst_ppm << " of " << times.fit.runs << "\n ";
  for (const Residual& residual : found.residuals)
    text << " " << residual.measured << "/" << residual.predicted;
  text << "\n";
}

TEST_CASE("what fits make of noisy times is as kept") {
  std::ostringstream text;
  for (const Model model : {Model::chain, Model::overlap}) {
    for (const std::uint32_t seed : {1U, 2U, 3U, 4U}) {
      test::Random random(seed);
      const Timing timing{.model = model,
                          .compute = 3'000,
                          .compute_partial = 3'600,
                          .reduce = 1'300,
                          .latency = 650,
                          .launch = 1'500,
                          .epilogue = 900};
      const test::ToyDevice device{.timing = timing,
                                   .noise = 0.2,
                                   .timer = seed == 2 ? 32 : 1,
                                   .taking = seed == 3 ? 90 : 0,
                                   .start = 5'000,
                                   .passes = 3'000,
                                   .passes_per_mi = 2'600,
                                   .stamps_hand_over = seed == 4};
      std::vector<CalibrationRun> runs;
      for (const std::int64_t heads : {2, 5, 40}) {
        const Problem problem =
            make_problem(make_mask("causal"), {640, 640}, {.q = 64, .kv = 128}, heads, 4);
        for (const char* name : {"spt", "descending"}) {
          const Table table = schedules::build(schedules::select(name), problem);
          for (const gpu::Mode mode : {gpu::Mode::deterministic, gpu::Mode::no_reduce}) {
            if (mode == gpu::Mode::no_reduce && seed % 2 == 0) continue;
            runs.push_back({table, mode, test::run_on_toy(device, table, mode, random),
                            heads * problem.lengths.q * 64});
          }
        }
      }
      if (seed > 2) {
        for (CalibrationRun& run : runs)
          run.run.untimed_ns = run.run.elapsed_ns - 100;
      }
      add_fit(text, calibrate(evidence_of(runs, model)));
    }
  }
  CHECK(test::golden_difference("calibrations.txt", text.str()) == "");
}

TEST_CASE("what fits make of short phases, absent ones and runs of no time is as kept") {
  std::ostringstream text;
  const Timing timings[] = {
      {.compute = 40, .compute_partial = 3, .reduce = 1, .launch = 2},
      {.compute = 3, .reduce = 60, .latency = 1, .epilogue = 4},
      {.model = Model::overlap, .compute = 9, .compute_partial = 30, .reduce = 2, .latency = 25},
      {.model = Model::overlap, .compute = 600, .reduce = 2, .latency = 1, .launch = 900},
      {.compute = 90'000, .reduce = 3, .latency = 2},
      {.model = Model::overlap, .compute = 2, .reduce = 70'000, .epilogue = 3}};
  for (const Timing& timing : timings) {
    for (const std::uint32_t seed : {1U, 2U, 3U}) {
      test::Random random(seed);
      const test::ToyDevice device{
          .timing = timing, .noise = 0.5, .timer = seed == 3 ? 32 : 1, .start = 7};
      std::vector<CalibrationRun> runs;
      for (const std::int64_t tiles : {1, 2, 5, 8}) {
        const Problem problem = make_problem(make_mask("causal"), {tiles, tiles}, {}, 3, 4);
        for (const char* name : {"spt", "descending"}) {
          const Table table = schedules::build(schedules::select(name), problem);
          const gpu::Mode mode = gpu::Mode::deterministic;
          runs.push_back({table, mode, test::run_on_toy(device, table, mode, random), tiles * 3});
          // Its stamps are said to cost all of it but a ns or two, or a tenth of it.
          gpu::Backward& run = runs.back().run;
          if (seed == 1 && tiles == 1) run.untimed_ns = 8;
          if (seed == 2) run.untimed_ns = run.elapsed_ns - run.elapsed_ns / 10;
        }
      }
      add_fit(text, calibrate(evidence_of(runs, timing.model)));
    }
  }
  // Of one run, and of runs in which nobody waits, so that nothing says what latency is.
  for (const std::int64_t tiles : {1, 6}) {
    test::Random random(7);
    const Problem problem = make_problem(make_mask("full"), {tiles, tiles}, {}, 1, 2);
    const Table table = schedules::build(schedules::select("ascending"), problem);
    const gpu::Mode mode = gpu::Mode::deterministic;
    const test::ToyDevice device{
        .timing = {.compute = 4'000, .reduce = 900, .latency = 70}, .noise = 0.3, .start = 7};
    add_fit(text, calibrate(evidence_of(
                      {{table, mode, test::run_on_toy(device, table, mode, random), tiles}},
                      Model::chain)));
  }
  CHECK(test::golden_difference("calibrations-short.txt", text.str()) == "");
}

}  // namespace
}  // namespace stagger::workbench
