// Whole run files, kept in tests/golden, of runs that ended in every way. Times, bits and names are
// made up, so that they are the same everywhere: what is checked is which number goes where.

#include "core/version.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/golden.hpp"
#include "tests/support/refusal.hpp"
#include "workbench/run_file.hpp"

#include <string>
#include <utility>

namespace stagger::workbench {
namespace {

Source causal_source(TimeModel model = {}) {
  return workbench::source_of(schedules::select("descending"),
                              make_problem(make_mask("causal"), {6, 6}, {2, 2}, 2, 0),
                              std::move(model));
}

/// A CPU run of two threads, whose times go up by slot as no run's do.
Execution run_of(Source source, gpu::Mode mode = gpu::Mode::deterministic, bool judged = true) {
  ExecutionRequest request{.source = std::move(source),
                           .kernel = &kernels().front(),
                           .mode = mode,
                           .head_dim = 4,
                           .repeats = 2,
                           .adds_partials = judged,
                           .threads = 2};
  if (!judged) request.reference = Reference::none;
  Execution execution = execute(std::move(request));
  execution.device = "a processor";
  if (!execution.runs) return execution;
  gpu::CheckedRuns& runs = *execution.runs;
  std::int64_t slot = 0;
  for (gpu::TaskTimes& times : runs.run.times) {
    if (times.compute_start >= 0) times.compute_start = 100 * slot;
    if (times.compute_end >= 0) times.compute_end = 100 * slot + 40;
    if (times.turn >= 0) times.turn = 100 * slot + 50 + 3 * slot;
    if (times.reduce_end >= 0) times.reduce_end = 100 * slot + 70 + 3 * slot;
    ++slot;
  }
  if (runs.errors) runs.errors = {.dq = gpu::Deviation{0.25, 0.5}, .dk = {1, 2}, .dv = {3, 4}};
  runs.bound = 0.125;
  if (!runs.digests.dq.empty()) runs.digests = {.dq = "d0", .dk = "d1", .dv = "d2"};
  runs.dq_difference = 0;
  // Two threads mostly take turns alike, and sometimes not.
  if (mode == gpu::Mode::atomic) runs.identical = runs.order_matches = true;
  if (runs.median_ns != 0) runs.median_ns = 5'000;
  return execution;
}

/// The execution as if on a GPU that there is not.
Execution on_gpu(Execution execution) {
  execution.cuda = gpu::CudaDevice{.name = "a GPU", .sms = 7, .driver = "12.5"};
  execution.device = "a GPU";
  gpu::CheckedRuns& runs = *execution.runs;
  runs.run.smids = {3, 1, 2};
  runs.run.times_error_ns = 32;
  runs.run.elapsed_ns = 5'200;
  runs.run.untimed_ns = 4'000;
  runs.run.passes_ns = 700;
  runs.untimed_median_ns = 4'100;
  return execution;
}

TimeModel machine_model() {
  return {.timing = {.model = Model::overlap,
                     .compute = 40,
                     .compute_partial = 45,
                     .reduce = 20,
                     .latency = 3,
                     .launch = 11,
                     .epilogue = 7,
                     .residency = 2,
                     .memory = Memory{.l2 = 5'000, .rate = 9, .tile = {30, 20, 50, 70}}},
          .clock = Clock::ns,
          .machine = "toy",
          .device = "a GPU",
          .start = 900,
          .passes = 650};
}

std::string difference(const std::string& name, const Execution& execution) {
  const std::string version = std::string("\"version\": \"") + stagger::version() + "\"";
  const std::string text = test::replaced(write_run(execution), version, "\"version\": \"x\"");
  return test::golden_difference("run-" + name + ".json", text);
}

TEST_CASE("run files say everything of a run, each number in its place") {
  CHECK(difference("cpu", run_of(causal_source())) == "");
  CHECK(difference("gpu", on_gpu(run_of(causal_source()))) == "");
  CHECK(difference("predicted", on_gpu(run_of(causal_source(machine_model())))) == "");
  CHECK(difference("atomic", run_of(causal_source(), gpu::Mode::atomic, false)) == "");
  CHECK(difference("no-reduce", run_of(causal_source(), gpu::Mode::no_reduce)) == "");
}

/// What a profile speaks of: a GPU's run in ns, with all lanes there.
Execution predicted_run(std::optional<std::int64_t> untimed, std::optional<std::int64_t> rested) {
  TimeModel model = machine_model();
  model.timing.residency = 0;
  Execution execution = on_gpu(run_of(causal_source(std::move(model))));
  execution.runs->untimed_median_ns = untimed;
  execution.runs->rested_median_ns = rested;
  return execution;
}

TEST_CASE("run files say how wrong a prediction is, of each time that was measured") {
  CHECK(difference("predicted-untimed", predicted_run(4'100, std::nullopt)) == "");
  CHECK(difference("predicted-rested", predicted_run(4'100, 3'900)) == "");
  // Without its own time of an untimed run no makespan is told from an untimed median.
  Execution stamped = predicted_run(std::nullopt, 4'400);
  stamped.runs->run.untimed_ns = 0;
  stamped.runs->run.passes_ns = 0;
  stamped.analysis.model.passes = 0;
  CHECK(difference("predicted-stamped", stamped) == "");
}

TEST_CASE("run files of heads that share K and V say which of their sums hang") {
  Source source{.table = {}, .model = {}, .selection = {}};
  source.table.name = "mine";
  source.table.problem = make_problem(make_mask("full"), {2, 4}, {2, 2}, 4, 2,
                                      {.heads_kv = 2, .span = 1, .combine = Combine::ordered});
  // The second KV head's heads are in each other's way on the first KV tile.
  for (const std::int32_t kv : {0, 1}) {
    for (const std::int32_t head : {0, 1})
      source.table.slots.push_back({{Head{head}, KvTile{kv}, QTile{0}}, kv});
  }
  source.table.end_lane();
  for (const std::int32_t kv : {1, 0}) {
    for (const std::int32_t head : {3, 2})
      source.table.slots.push_back({{Head{head}, KvTile{kv}, QTile{0}}, 1 - kv});
  }
  source.table.end_lane();
  CHECK(difference("groups", run_of(std::move(source))) == "");
}

TEST_CASE("run files say what is wrong with a run") {
  Source hanging = causal_source();
  hanging.table.slots.front().rank = 5;
  CHECK(difference("hangs", run_of(std::move(hanging))) == "");

  Source broken = causal_source();
  std::swap(broken.table.slots[5], broken.table.slots[6]);
  CHECK(difference("invalid", run_of(std::move(broken))) == "");

  Execution refused = on_gpu(run_of(causal_source()));
  refused.refused = "the table is too large";
  refused.runs.reset();
  CHECK(difference("refused", refused) == "");

  Execution faulty = on_gpu(run_of(causal_source()));
  faulty.runs->verdict = gpu::RunVerdict::mismatch;
  faulty.runs->faults = {{.kind = "bits", .message = "run 2 gives other bits"}};
  faulty.runs->identical = false;
  faulty.runs->order_matches = false;
  faulty.runs->reaccumulated = false;
  faulty.runs->untimed_median_ns.reset();
  faulty.runs->run.untimed_ns = 0;
  faulty.runs->run.passes_ns = 0;
  faulty.lost_partials = 123;
  faulty.device_reference = true;
  faulty.options.perturb = 9;
  CHECK(difference("faulty", faulty) == "");
}

TEST_CASE("run files of a kernel that spins say for how long, and no arithmetic") {
  Execution spins = on_gpu(run_of(causal_source()));
  spins.kernel = &kernel_of("replay");
  spins.tick_ns = 250;
  spins.spun = {.compute = 8, .reduce = 3};
  spins.runs->errors.reset();
  spins.runs->digests = {};
  CHECK(difference("spins", spins) == "");
}

TEST_CASE("what is left of a run that stopped, tile by tile") {
  Source hanging = causal_source();
  const Problem problem = hanging.table.problem;
  hanging.table.slots.back().rank = 5;
  const Execution execution = run_of(std::move(hanging));
  REQUIRE(execution.stopped());
  std::vector<dag::Liveness::Hanging> left;
  std::size_t lock = 0;
  for (Head head{0}; head.value < problem.heads; ++head) {
    for (QTile q{0}; q.value < problem.q_tiles(); ++q, ++lock) {
      std::int32_t live = 0;
      for (KvTile kv{0}; kv.value < problem.kv_tiles(); ++kv)
        live += problem.common_grid().live(kv, q) ? 1 : 0;
      if (execution.runs->run.lock_values[lock] < live) left.push_back({head, q});
    }
  }
  const std::vector<dag::Liveness::Hanging> hangs = hanging_tiles(execution);
  REQUIRE(hangs.size() == left.size());
  REQUIRE_FALSE(left.empty());
  CHECK(left.size() < lock);
  for (std::size_t index = 0; index < left.size(); ++index) {
    CHECK(hangs[index].head == left[index].head);
    CHECK(hangs[index].q == left[index].q);
  }
}

}  // namespace
}  // namespace stagger::workbench
