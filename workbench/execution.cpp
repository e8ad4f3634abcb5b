#include "workbench/execution.hpp"

#include "core/error.hpp"
#include "core/limits.hpp"
#include "core/text.hpp"
#include "core/token_mask.hpp"
#include "gpu/cpu/executor.hpp"
#include "gpu/cuda/masked_tiles.hpp"
#include "gpu/cuda/replay.hpp"

#include <algorithm>
#include <utility>

namespace stagger::workbench {
namespace {

constexpr int kUntimedRuns = 5;  ///< of a kernel that is no fast one

gpu::BackwardOptions backward_options(const ExecutionRequest& request, const Table& table,
                                      const Timing& timing) {
  gpu::BackwardOptions run{.mode = request.mode,
                           .dtype = request.dtype,
                           .release = timing.release,
                           .residency = timing.residency,
                           .timeout = request.timeout,
                           .perturb = request.perturb,
                           .threads = request.threads};
  if (run.threads == 0) run.threads = gpu::default_threads(table, run);
  return run;
}

/// Whether every live task is there once and no chain is split; ranks may be wrong, and the run
/// then shows what comes of it.
bool runnable(const dag::Verification& verification) {
  return std::ranges::all_of(verification.findings, [](const dag::Finding& finding) {
    switch (finding.kind) {
      case dag::FindingKind::rank_gap:
      case dag::FindingKind::rank_duplicate:
      case dag::FindingKind::rank_out_of_range:
      case dag::FindingKind::dkv_rank_gap:
      case dag::FindingKind::dkv_rank_duplicate:
      case dag::FindingKind::dkv_rank_out_of_range:
      case dag::FindingKind::deadlock:
      case dag::FindingKind::co_residency:
        return true;
      default:
        return false;
    }
  });
}

/// `12.3`, of a number of bytes.
std::string gib(std::int64_t bytes) {
  const std::int64_t tenths = (10 * bytes + (1 << 29)) >> 30;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10);
}

/// Beside a CUDA run, partials that are too large are done without.
void expect_fits(Execution& execution) {
  const Table& table = execution.analysis.table;
  gpu::BackwardOptions options = execution.options;
  options.keep_partials = execution.adds_partials && options.mode == gpu::Mode::deterministic;
  const std::int64_t partials = gpu::partial_bytes(table, execution.shape);
  if (execution.cuda && options.keep_partials && partials > kMaxPartialBytes) {
    options.keep_partials = false;
    execution.lost_partials = partials;
  }
  const std::int64_t bytes =
      gpu::run_bytes(table, execution.shape, options) + execution.stored_bytes();
  const std::int64_t limit = execution.cuda ? kMaxCudaRunBytes : kMaxRunBytes;
  if (bytes <= limit) return;
  throw Error(ErrorKind::limit, describe(table.problem) + ", head_dim " +
                                    std::to_string(execution.shape.head_dim) +
                                    ": a checked run takes about " + gib(bytes) +
                                    " GiB; the limit is " + std::to_string(limit >> 30) + " GiB");
}

/// Why a table is not launched: it would hang for want of CTAs. Empty if it is.
std::string refusal(const Analysis& analysis, const gpu::CudaDevice& device) {
  const dag::Liveness& liveness = analysis.verification.liveness;
  if (liveness.residency_needed <= device.sms) return "";
  return "the table needs " + std::to_string(liveness.residency_needed) +
         " CTAs resident at once; " + device.name + " holds " + std::to_string(device.sms) +
         ", one an SM";
}

/// Refuses a mask that the kernels of a GPU do not know, or whose bits are too many for them.
void expect_fits_gpu(const ExecutionRequest& request) {
  if (!request.cuda || request.kernel->spins()) return;
  const Problem& problem = request.source.table.problem;
  if (mask_heads(problem.mask) > 0) {
    throw Error(ErrorKind::unsupported,
                std::string("the ") + request.kernel->name +
                    " kernel on a GPU does not know heads with masks of their own yet: give one "
                    "mask for all heads, or run them on threads (`--device cpu`)");
  }
  const std::string why = gpu::cuda::bits_refusal(problem);
  if (!why.empty()) throw Error(ErrorKind::limit, why);
}

void tell(const ExecutionRequest& request, const char* what, double fraction) {
  if (request.progress) request.progress(what, fraction);
}

/// Asked after each run.
gpu::GoesOn goes_on(Execution& execution, const ExecutionRequest& request) {
  if (request.begins) request.begins();
  tell(request, "running", 0);
  return [&](std::int64_t finished) {
    tell(request, "running", static_cast<double>(finished) / static_cast<double>(request.repeats));
    execution.cut_short = request.stop && request.stop();
    return !execution.cut_short;
  };
}

/// Whether untimed runs are worth it: what ran on the CPU has no stamps to leave out.
bool runs_untimed(const Execution& execution, const ExecutionRequest& request) {
  if (!execution.cuda || execution.cut_short) return false;
  if (execution.runs->verdict != gpu::RunVerdict::ok) return false;
  tell(request, "playing untimed runs", 0);
  return true;
}

gpu::UntimedRuns untimed_runs(const Execution& execution, const gpu::Attention& attention) {
  constexpr int kWarmups = 5;
  constexpr int kRuns = 20;
  const Table& table = execution.analysis.table;
  const Kernel& kernel = *execution.kernel;
  if (kernel.untimed == nullptr) {
    return gpu::untimed_runs(table, attention, execution.options, kUntimedRuns, kernel.on_cuda);
  }
  return kernel.untimed(table, attention, execution.options, kWarmups, kRuns);
}

void run_attention(Execution& execution, const ExecutionRequest& request) {
  expect_fits(execution);
  execution.device_reference =
      uses_device_reference(request.reference, execution.cuda.has_value(), execution.shape);
  const JudgedProblem problem = judged_problem(
      execution.analysis.table.problem, execution.shape, execution.seed, request.reference,
      execution.device_reference, request.progress, execution.dropout);
  execution.flops = gpu::backward_flops(problem.attention);
  execution.runs = gpu::check_runs(
      execution.analysis.table, problem.attention, problem.exact ? &*problem.exact : nullptr,
      execution.options, request.repeats,
      execution.cuda ? execution.kernel->on_cuda : execution.kernel->on_cpu,
      execution.adds_partials && execution.lost_partials == 0, goes_on(execution, request));
  if (!runs_untimed(execution, request)) return;
  gpu::check_untimed_runs(untimed_runs(execution, problem.attention), execution.options.mode,
                          *execution.runs);
}

void run_replay(Execution& execution, const ExecutionRequest& request) {
  const Table& table = execution.analysis.table;
  const gpu::Replay replay{.device = gpu::replay_on_cuda,
                           .times = {execution.spun, execution.tick_ns}};
  execution.runs = gpu::check_replays(table, execution.options, request.repeats, replay,
                                      goes_on(execution, request));
  if (!runs_untimed(execution, request)) return;
  gpu::check_untimed_runs(gpu::untimed_replays(table, execution.options, kUntimedRuns, replay),
                          execution.options.mode, *execution.runs);
}

std::int64_t tasks_left(const Execution& execution) {
  return execution.analysis.table.problem.tasks() -
         std::ranges::count_if(execution.runs->run.witness,
                               [](std::int64_t slot) { return slot >= 0; });
}

}  // namespace

const char* Execution::verdict() const {
  if (!refused.empty()) return "refused";
  return runs ? gpu::verdict_name(runs->verdict) : dag::verdict_name(analysis.verification.verdict);
}

bool Execution::stopped() const {
  return runs && runs->run.outcome != gpu::Outcome::finished;
}

bool Execution::is_predicted() const {
  return analysis.ok() && analysis.model.clock == Clock::ns && cuda && runs &&
         runs->median_ns > 0 && options.mode == gpu::Mode::deterministic && !dropout;
}

std::int64_t Execution::assumed_tiles() const {
  return kernel->spins() ? 0 : stagger::assumed_tiles(analysis.table.problem);
}

std::int64_t Execution::stored_bytes() const {
  if (!dropout || dropout->mask_bits != gpu::MaskBits::stored) return 0;
  return 4 * shape.dropout_layout().words(1);
}

Execution execute(ExecutionRequest request) {
  STAGGER_EXPECTS(request.kernel != nullptr);
  const Kernel& kernel = *request.kernel;
  STAGGER_EXPECTS(request.cuda || kernel.on_cpu != nullptr);
  STAGGER_EXPECTS(request.cuda || request.reference != Reference::device);
  expect_fits_gpu(request);
  Execution execution;
  execution.kernel = &kernel;
  execution.cuda = request.cuda;
  if (execution.cuda) {
    fit(request.source.model.timing, request.source.table.problem, execution.cuda->sms);
  }
  tell(request, "analysing the table", 0);
  execution.analysis = analyze(std::move(request.source), request.analysis);
  const Analysis& analysis = execution.analysis;
  execution.shape = gpu::attention_shape(analysis.table.problem, request.head_dim);
  execution.options = backward_options(request, analysis.table, analysis.model.timing);
  execution.seed = request.seed;
  execution.dropout = request.dropout;
  execution.device = execution.cuda ? execution.cuda->name : gpu::cpu_name();
  execution.adds_partials = request.adds_partials;
  execution.spun = request.spun;
  execution.tick_ns = request.tick_ns;
  execution.repeats = request.repeats;
  if (!runnable(analysis.verification)) return execution;
  if (execution.cuda) execution.refused = refusal(analysis, *execution.cuda);
  if (!execution.refused.empty()) return execution;
  (kernel.spins() ? run_replay : run_attention)(execution, request);
  return execution;
}

Timeline timeline_of(const Execution& execution) {
  STAGGER_EXPECTS(execution.runs.has_value());
  Timeline timeline = gpu::measured_timeline(
      execution.analysis.table, execution.runs->run,
      execution.cuda ? execution.device
                     : execution.device + ", " + counted(execution.options.threads, "thread"));
  timeline.title += ": " + describe(execution.analysis.table.problem);
  return timeline;
}

std::string why_stopped(const Execution& execution) {
  STAGGER_EXPECTS(execution.stopped());
  std::string left = std::to_string(tasks_left(execution)) + " of " +
                     counted(execution.analysis.table.problem.tasks(), "task") +
                     (tasks_left(execution) == 1 ? " has not reduced" : " have not reduced");
  if (const std::int64_t chains = std::ssize(hanging_dkv_tiles(execution)); chains > 0) {
    left += ", and dK and dV of " + counted(chains, "KV tile") +
            (chains == 1 ? " lacks parts" : " lack parts");
  }
  if (execution.runs->verdict == gpu::RunVerdict::deadlock) {
    return "nothing can move any more; " + left;
  }
  return "a task waited for its turn for more than " +
         std::to_string(execution.options.timeout.count()) + " ms; " + left;
}

std::vector<dag::Liveness::Hanging> hanging_tiles(const Execution& execution) {
  STAGGER_EXPECTS(execution.stopped());
  const Problem& problem = execution.analysis.table.problem;
  std::vector<dag::Liveness::Hanging> hanging;
  std::size_t lock = 0;
  for (Head head{0}; head.value < problem.heads; ++head) {
    for (QTile q{0}; q.value < problem.q_tiles(); ++q) {
      if (execution.runs->run.lock_values[lock++] != problem.contributions(head, q)) {
        hanging.push_back({head, q});
      }
    }
  }
  return hanging;
}

std::vector<dag::Liveness::HangingDkv> hanging_dkv_tiles(const Execution& execution) {
  STAGGER_EXPECTS(execution.stopped());
  const Problem& problem = execution.analysis.table.problem;
  const std::vector<std::int32_t>& values = execution.runs->run.dkv_lock_values;
  std::vector<dag::Liveness::HangingDkv> hanging;
  if (values.empty()) return hanging;
  for (KvHead head{0}; head.value < problem.heads_kv; ++head) {
    for (KvTile kv{0}; kv.value < problem.kv_tiles(); ++kv) {
      if (values[at(problem.dkv_place(head, kv))] != problem.dkv_contributions(head, kv)) {
        hanging.push_back({head, kv});
      }
    }
  }
  return hanging;
}

std::int64_t measured_makespan(const Execution& execution) {
  return gpu::measured_timeline(execution.analysis.table, execution.runs->run, "").makespan;
}

std::optional<std::int64_t> untimed_makespan(const Execution& execution,
                                             std::optional<std::int64_t> median_ns) {
  const gpu::Backward& run = execution.runs->run;
  if (!median_ns || run.untimed_ns == 0) return std::nullopt;
  const std::int64_t around = run.elapsed_ns - measured_makespan(execution);
  return std::max<std::int64_t>(*median_ns - around, 1);
}

std::optional<double> stamp_overhead(const Execution& execution) {
  const gpu::Backward& run = execution.runs->run;
  if (execution.runs->untimed_median_ns.value_or(0) == 0) return std::nullopt;
  if (run.untimed_ns > 0) return error_of(run.elapsed_ns, run.untimed_ns);
  return error_of(execution.runs->median_ns, *execution.runs->untimed_median_ns);
}

Ticks predicted_elapsed(const Analysis& analysis) {
  return analysis.model.elapsed(analysis.makespan);
}

double error_of(Ticks predicted, std::int64_t measured) {
  return static_cast<double>(predicted) / static_cast<double>(std::max<std::int64_t>(measured, 1)) -
         1;
}

}  // namespace stagger::workbench
