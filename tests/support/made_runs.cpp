#include "tests/support/made_runs.hpp"

#include <utility>

namespace stagger::test {

using namespace workbench;

Source causal_source(TimeModel model) {
  return workbench::source_of(schedules::select("descending"),
                              make_problem(make_mask("causal"), {6, 6}, {2, 2}, 2, 0),
                              std::move(model));
}

Execution made_run(Source source, gpu::Mode mode, bool judged) {
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

TimeModel toy_model() {
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

Execution predicted_run(std::optional<std::int64_t> untimed, std::optional<std::int64_t> rested) {
  TimeModel model = toy_model();
  model.timing.residency = 0;
  Execution execution = on_gpu(made_run(causal_source(std::move(model))));
  execution.runs->untimed_median_ns = untimed;
  execution.runs->rested_median_ns = rested;
  return execution;
}

}  // namespace stagger::test
