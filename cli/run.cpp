#include "cli/report/run.hpp"

#include "cli/commands.hpp"
#include "cli/device.hpp"
#include "cli/files.hpp"
#include "cli/report/text.hpp"
#include "cli/requests.hpp"
#include "core/error.hpp"
#include "core/files.hpp"
#include "core/limits.hpp"
#include "gpu/cpu/executor.hpp"
#include "gpu/cuda/executor.hpp"
#include "gpu/cuda/reference.hpp"
#include "gpu/cuda/replay.hpp"
#include "workbench/analysis.hpp"
#include "workbench/kernels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

namespace stagger::cli {
namespace {

using workbench::Analysis;
using workbench::Kernel;
using workbench::Source;

/// Pairs of tokens times head_dim that the host's reference does in some seconds.
constexpr double kMaxHostReference = 0x1p28;

gpu::BackwardOptions backward_options(const Options& options, const Table& table,
                                      const Timing& timing) {
  gpu::BackwardOptions run{.mode = options.mode,
                           .dtype = options.dtype,
                           .release = timing.release,
                           .residency = timing.residency,
                           .timeout = std::chrono::milliseconds(options.timeout_ms),
                           .threads = static_cast<std::int32_t>(options.threads)};
  if (options.perturb) run.perturb = static_cast<std::uint64_t>(*options.perturb);
  if (run.threads == 0) run.threads = gpu::default_threads(table, run);
  return run;
}

/// Whether every live task is there once and no chain is split; ranks may be wrong, and the run
/// then shows what comes of it.
bool runnable(const dag::Verification& verification) {
  return std::none_of(verification.findings.begin(), verification.findings.end(),
                      [](const dag::Finding& finding) {
                        switch (finding.kind) {
                          case dag::FindingKind::rank_gap:
                          case dag::FindingKind::rank_duplicate:
                          case dag::FindingKind::rank_out_of_range:
                          case dag::FindingKind::deadlock:
                          case dag::FindingKind::co_residency:
                            return false;
                          default:
                            return true;
                        }
                      });
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
  const std::int64_t bytes = gpu::run_bytes(table, execution.shape, options);
  const std::int64_t limit = execution.cuda ? kMaxCudaRunBytes : kMaxRunBytes;
  if (bytes <= limit) return;
  throw Error(ErrorKind::limit,
              fmt::format("{}, head_dim {}: a checked run takes about {:.1f} GiB; the limit is {} "
                          "GiB",
                          problem_line(table.problem), execution.shape.head_dim,
                          static_cast<double>(bytes) / (1 << 30), limit >> 30));
}

bool uses_device_reference(const Execution& execution, const Options& options) {
  if (options.reference) return options.reference == Reference::device;
  const gpu::AttentionShape& shape = execution.shape;
  const double work = static_cast<double>(shape.heads) * static_cast<double>(shape.seq_q) *
                      static_cast<double>(shape.seq_kv) * shape.head_dim;
  return execution.cuda && work > kMaxHostReference;
}

/// Whether bare runs are worth it: what ran on the CPU has no stamps to leave out.
bool runs_bare(const Execution& execution) {
  return execution.cuda && execution.runs->verdict == gpu::RunVerdict::ok;
}
constexpr int kBareRuns = 5;  ///< of a kernel that is no fast one

/// Why a table is not launched: it would hang for want of CTAs. Empty if it is.
std::string refusal(const Analysis& analysis, const gpu::CudaDevice& device) {
  const auto& liveness = analysis.verification.liveness;
  if (!liveness || liveness->residency_needed <= device.sms) return "";
  return fmt::format("the table needs {} CTAs resident at once; {} holds {}, one an SM",
                     liveness->residency_needed, device.name, device.sms);
}

/// A problem with its numbers, and what its gradients should be.
struct Judged {
  gpu::Attention attention;
  std::optional<gpu::ReferenceGradients> exact;
};

Judged judged(const Execution& execution, bool has_reference) {
  gpu::Inputs inputs = gpu::random_inputs(execution.shape, execution.seed);
  if (!has_reference) {
    return {gpu::unjudged_attention(execution.analysis.table.problem, execution.shape,
                                    std::move(inputs)),
            std::nullopt};
  }
  Progress progress("computing what the gradients should be");
  progress.show(0.1);
  const bool on_device = execution.device_reference;
  gpu::Attention attention = (on_device ? gpu::make_attention_on_cuda : gpu::make_attention)(
      execution.analysis.table.problem, execution.shape, std::move(inputs));
  progress.show(0.4);
  gpu::ReferenceGradients exact =
      (on_device ? gpu::reference_gradients_on_cuda : gpu::reference_gradients)(attention);
  return {std::move(attention), std::move(exact)};
}

gpu::BareRuns bare_runs(const Execution& execution, const Kernel& kernel,
                        const gpu::Attention& attention) {
  constexpr int kWarmups = 5;
  constexpr int kRuns = 20;
  const Table& table = execution.analysis.table;
  if (kernel.bare == nullptr) {
    return gpu::bare_runs(table, attention, execution.options, kBareRuns, kernel.run);
  }
  return kernel.bare(table, attention, execution.options, kWarmups, kRuns);
}

/// On the CPU without a kernel.
void run_attention(Execution& execution, const Options& options, const Kernel* kernel) {
  expect_fits(execution);
  execution.device_reference = uses_device_reference(execution, options);
  const Table& table = execution.analysis.table;
  const Judged problem = judged(execution, options.reference != Reference::none);
  execution.flops = gpu::backward_flops(problem.attention);
  execution.runs = gpu::check_runs(
      table, problem.attention, problem.exact ? &*problem.exact : nullptr, execution.options,
      options.runs, kernel == nullptr ? gpu::backward_on_cpu : kernel->run,
      execution.adds_partials && execution.lost_partials == 0);
  if (!runs_bare(execution)) return;
  gpu::check_bare_runs(bare_runs(execution, *kernel, problem.attention), execution.options.mode,
                       *execution.runs);
}

void run_replay(Execution& execution, const Options& options) {
  const Table& table = execution.analysis.table;
  const gpu::Replay replay{.device = gpu::replay_on_cuda,
                           .times = {execution.spun, execution.tick_ns}};
  execution.runs = gpu::check_replays(table, execution.options, options.runs, replay);
  if (!runs_bare(execution)) return;
  gpu::check_bare_runs(gpu::bare_replays(table, execution.options, kBareRuns, replay),
                       execution.options.mode, *execution.runs);
}

Execution execute(const Options& options) {
  Execution execution;
  if (options.device == Device::cuda) execution.cuda = gpu::cuda_device();
  Source source = source_of(options);
  if (execution.cuda)
    workbench::fit(source.model.timing, source.table.problem, execution.cuda->sms);
  execution.analysis = workbench::analyze(std::move(source), analysis_options(options));
  const Analysis& analysis = execution.analysis;
  execution.shape = gpu::attention_shape(analysis.table.problem, options.head_dim);
  execution.options = backward_options(options, analysis.table, analysis.model.timing);
  execution.seed = static_cast<std::uint64_t>(options.seed);
  execution.device = execution.cuda ? execution.cuda->name : gpu::cpu_name();
  execution.kernel = options.kernel->name;
  execution.adds_partials = !options.no_partials;
  if (options.kernel->spins()) execution.tick_ns = options.replay_tick_ns();
  execution.spun = spun_timing(options);
  if (!runnable(analysis.verification)) return execution;
  if (execution.cuda) execution.refused = refusal(analysis, *execution.cuda);
  if (!execution.refused.empty()) return execution;
  if (options.kernel->spins()) {
    run_replay(execution, options);
  } else {
    run_attention(execution, options, execution.cuda ? options.kernel : nullptr);
  }
  return execution;
}

std::string timeline_json(const Execution& execution) {
  Timeline timeline = gpu::measured_timeline(
      execution.analysis.table, execution.runs->run,
      execution.cuda ? execution.device
                     : fmt::format("{}, {} threads", execution.device, execution.options.threads));
  timeline.title += ": " + problem_line(execution.analysis.table.problem);
  return write_timeline_json(timeline);
}

int exit_code(const Execution& execution) {
  if (!execution.refused.empty()) return kDeadlock;
  if (!execution.runs) return kViolated;
  switch (execution.runs->verdict) {
    case gpu::RunVerdict::ok:
      return kHolds;
    case gpu::RunVerdict::mismatch:
      return kViolated;
    case gpu::RunVerdict::deadlock:
    case gpu::RunVerdict::timeout:
      break;
  }
  return kDeadlock;
}

void check_options(const Options& options) {
  const std::string kernel = std::string("--kernel ") + options.kernel->name;
  const bool spins = options.kernel->spins();
  if (options.device == Device::cpu && !options.kernel->on_cpu) {
    throw Error(ErrorKind::usage, kernel + " is for --device cuda: " +
                                      (spins ? "`stagger analyze` simulates the same"
                                             : "the CPU runs the same table as portable"));
  }
  if (options.device == Device::cpu && options.reference == Reference::device) {
    throw Error(ErrorKind::usage, "--reference device is for --device cuda");
  }
  if (spins && options.model.value_or(options.kernel->model) != options.kernel->model) {
    throw Error(ErrorKind::usage, kernel + " plays the chain model alone");
  }
  if (options.tick_ns && !spins && options.machine.empty()) {
    throw Error(ErrorKind::usage, "--tick-ns is for a replay; " + kernel + " takes what it takes");
  }
  if (options.threads != 0 && options.device != Device::cpu) {
    throw Error(ErrorKind::usage, "--threads is for --device cpu");
  }
  if (!options.output.empty() && options.output != "-" && !options.output.ends_with(".json")) {
    throw Error(ErrorKind::usage, options.output +
                                      ": a run writes its timeline as .json; draw it with "
                                      "`stagger export --timeline`");
  }
}

int run(const Options& options) {
  check_options(options);
  if (options.device == Device::cuda && !has_device()) return kSkipped;
  const Execution execution = execute(options);
  if (!options.output.empty() && execution.runs) {
    write_file(options.output, timeline_json(execution));
  }
  if (options.output == "-") return exit_code(execution);
  if (options.json) {
    write_stdout(run_json(execution) + "\n");
  } else {
    const Terminal terminal = terminal_of(options);
    write_text(run_text(execution, terminal), terminal);
  }
  return exit_code(execution);
}

}  // namespace

extern const Command kRun;
const Command kRun{
    .name = "run",
    .summary = "The backward pass by a table, for real: gradients, bits, order, time",
    .examples =
        "  stagger run --mask causal --seq 512 --tile-q 64 --tile-kv 64 --heads 4 \\\n"
        "      --schedule symmetric-shift\n"
        "  stagger run --table mine.table.json --perturb 1 --repeat 20 --dtype bf16\n"
        "  stagger run --n 8 --mask full --schedule shift --tile-q 32 --tile-kv 32 \\\n"
        "      --mode atomic\n"
        "  stagger run --n 8 --tile-q 64 --tile-kv 64 --schedule spt -o run.timeline.json\n"
        "  stagger run --config configs/varlen_full_1k.json --ranks kv-index\n"
        "  stagger run --mask causal --n 64 --schedule symmetric-shift --device cuda \\\n"
        "      --kernel replay --tick-ns 1000\n"
        "  stagger run --mask causal --seq 8192 --tile-q 64 --tile-kv 128 --heads 32 \\\n"
        "      --sms 132 --schedule symmetric-shift --device cuda --kernel hopper \\\n"
        "      --dtype bf16 --head-dim 128\n",
    .run = run,
};

}  // namespace stagger::cli
