#include "workbench/designs/execution.hpp"

#include "core/error.hpp"
#include "core/limits.hpp"
#include "core/median.hpp"
#include "core/text.hpp"
#include "gpu/cpu/executor.hpp"
#include "gpu/cuda/masked_tiles.hpp"
#include "workbench/designs/free_lanes.hpp"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <thread>
#include <utility>

namespace stagger::designs {
namespace {

gpu::Makes makes_of(const Chain& chain) {
  if (chain.gemms == kGemms) return gpu::Makes::all;
  return chain.keeps == Keeps::kv ? gpu::Makes::dkv : gpu::Makes::dq;
}

gpu::Program::Kernel kernel_of(const Stage& stage) {
  const auto& lanes = std::get<FreeLanes>(stage.work);
  gpu::Program::Kernel kernel;
  for (std::int64_t lane = 0; lane < lanes.lanes(); ++lane) {
    auto& stints = kernel.lanes.emplace_back();
    for (std::int64_t index = lanes.lane_begin[at(lane)]; index < lanes.lane_begin[at(lane + 1)];
         ++index) {
      const Chain& chain = lanes.chains[at(index)];
      stints.push_back({.makes = makes_of(chain),
                        .buffer = chain.buffer,
                        .tasks = tasks_of(chain, lanes, stage.problem)});
    }
  }
  return kernel;
}

bool same_bits(const std::vector<float>& left, const std::vector<float>& right) {
  return std::equal(left.begin(), left.end(), right.begin(), right.end(), [](float a, float b) {
    return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
  });
}

bool same_bits(const gpu::ProgramRun& left, const gpu::ProgramRun& right) {
  return same_bits(left.gradients.dq, right.gradients.dq) &&
         same_bits(left.gradients.dk, right.gradients.dk) &&
         same_bits(left.gradients.dv, right.gradients.dv) && same_bits(left.dq_sums, right.dq_sums);
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2g", value);
  return text;
}

/// What is found out about runs, one after the other.
class Check {
 public:
  Check(const gpu::Program& program, const gpu::Attention& attention, Execution& execution)
      : program_(program),
        attention_(attention),
        order_(gpu::order_of(program)),
        execution_(execution) {}

  void add(gpu::ProgramRun run, bool perturbed) {
    if (!perturbed) elapsed_ns_.push_back(run.elapsed_ns);
    execution_.median_ns = median(elapsed_ns_);
    if (run.witness != order_.added) {
      if (std::exchange(execution_.order_matches, false)) {
        fault("order", "dQ was added in another order than the design's");
      }
    }
    if (execution_.repeats++ == 0) return check_first(std::move(run));
    if (same_bits(run, first_) || !std::exchange(execution_.identical, false)) return;
    fault("bits", "run " + std::to_string(execution_.repeats) + " gives other bits than the first");
  }

  /// Takes the last of several untimed runs, which is held to the first run's bits.
  void add_untimed(const gpu::ProgramRun& last, std::vector<std::int64_t> elapsed_ns) {
    if (!same_bits(last, first_) && std::exchange(execution_.identical, false)) {
      fault("bits", "an untimed run gives other bits than the first");
    }
    execution_.untimed_median_ns = median(std::move(elapsed_ns));
  }

  /// Whether a run was stopped: then that is said.
  bool stopped(const gpu::ProgramRun& run) {
    if (run.outcome == gpu::Outcome::finished) return false;
    execution_.timed_out = true;
    fault("stopped", "a run took longer than " + std::to_string(execution_.timeout.count()) +
                         " ms, after " + counted(execution_.repeats, "run") + " that finished");
    return true;
  }

  void judge(const gpu::ReferenceGradients& exact) {
    const gpu::Gradients& gradients = first_.gradients;
    execution_.errors = gpu::GradientErrors{.dq = gpu::deviation(gradients.dq, exact.dq),
                                            .dk = gpu::deviation(gradients.dk, exact.dk),
                                            .dv = gpu::deviation(gradients.dv, exact.dv)};
    check_error("dQ", *execution_.errors->dq);
    check_error("dK", execution_.errors->dk);
    check_error("dV", execution_.errors->dv);
  }

 private:
  void check_first(gpu::ProgramRun run) {
    execution_.digests = gpu::digests(run.gradients);
    if (!run.partials.empty() || program_.problem.tasks() == 0) {
      const auto dq = gpu::reaccumulate(program_, attention_.shape, run.partials);
      execution_.reaccumulated = same_bits(dq, run.dq_added());
      if (!*execution_.reaccumulated) {
        fault("reaccumulation",
              "the run's own dQ partials, added in the design's order, give "
              "other bits than dQ");
      }
    }
    run.partials = {};
    first_ = std::move(run);
  }

  void check_error(const std::string& name, const gpu::Deviation& error) {
    // Not >, which would let pass what is not a number.
    if (error.frobenius <= execution_.bound && error.most <= execution_.bound) return;
    fault("gradient", name + " is " + number(error.frobenius) + " (at worst " + number(error.most) +
                          ") from the reference; it is held to " + number(execution_.bound));
  }

  void fault(const char* kind, std::string message) {
    execution_.faults.push_back({kind, std::move(message)});
  }

  const gpu::Program& program_;
  const gpu::Attention& attention_;
  const gpu::ProgramOrder order_;
  Execution& execution_;
  std::vector<std::int64_t> elapsed_ns_;  ///< of the runs without delays
  gpu::ProgramRun first_;
};

/// Beside a GPU, partials that are too large are done without.
void expect_fits(const gpu::Program& program, const gpu::AttentionShape& shape, bool partials,
                 Execution& execution) {
  const std::int64_t bytes_of_partials = gpu::partial_bytes(program, shape);
  if (execution.cuda && partials && bytes_of_partials > kMaxPartialBytes) {
    execution.lost_partials = bytes_of_partials;
  }
  const std::int64_t limit = execution.cuda ? kMaxCudaRunBytes : kMaxRunBytes;
  if (gpu::run_bytes(program, shape, partials && execution.lost_partials == 0) <= limit) return;
  throw Error(ErrorKind::limit,
              describe(program.problem) + ", head_dim " + std::to_string(shape.head_dim) +
                  ": a checked run takes more than " + std::to_string(limit >> 30) + " GiB");
}

/// Refuses a mask whose bits are too many for a GPU.
void expect_runs_there(const gpu::Program& program, const Execution& execution) {
  if (!execution.cuda) return;
  const std::string why = gpu::cuda::bits_refusal(program.problem);
  if (!why.empty()) throw Error(ErrorKind::limit, why);
}

std::int32_t threads_of(std::int32_t given) {
  if (given > 0) return given;
  return std::clamp(static_cast<std::int32_t>(std::thread::hardware_concurrency()), 2,
                    gpu::kMaxThreads);
}

void tell(const ExecutionRequest& request, const char* what, double fraction) {
  if (request.progress) request.progress(what, fraction);
}

std::chrono::milliseconds timeout_of(const ExecutionRequest& request) {
  return request.cuda && request.timeout.count() == 0 ? gpu::kLongestProgram : request.timeout;
}

gpu::ProgramOptions program_options(const ExecutionRequest& request, const Execution& execution) {
  return {.dtype = request.dtype, .threads = execution.threads, .timeout = execution.timeout};
}

/// The runs that are checked.
void run_checked(const ExecutionRequest& request, const gpu::Program& program,
                 const gpu::Attention& attention, Check& check, Execution& execution) {
  const gpu::ProgramDevice device = execution.cuda ? request.on_cuda : request.on_cpu;
  if (request.begins) request.begins();
  tell(request, "running", 0);
  for (std::int64_t run = 0; run < request.repeats && !execution.cut_short; ++run) {
    const bool perturbed = request.perturb && run > 0;
    gpu::ProgramOptions options = program_options(request, execution);
    options.keep_partials = request.adds_partials && execution.lost_partials == 0 && run == 0;
    if (perturbed) options.perturb = *request.perturb + static_cast<std::uint64_t>(run) - 1;
    gpu::ProgramRun done = device(program, attention, options);
    if (check.stopped(done)) return;
    check.add(std::move(done), perturbed);
    tell(request, "running", static_cast<double>(run + 1) / static_cast<double>(request.repeats));
    execution.cut_short = run + 1 < request.repeats && request.stop && request.stop();
  }
}

/// What a GPU takes for nothing but the kernels.
void run_untimed(const ExecutionRequest& request, const gpu::Program& program,
                 const gpu::Attention& attention, Check& check, const Execution& execution) {
  constexpr int kRuns = 5;
  tell(request, "playing untimed runs", 0);
  gpu::ProgramOptions options = program_options(request, execution);
  options.witnessed = false;
  static_cast<void>(request.on_cuda(program, attention, options));  // with cold caches
  gpu::ProgramRun last;
  std::vector<std::int64_t> elapsed_ns;
  while (std::ssize(elapsed_ns) < kRuns) {
    last = request.on_cuda(program, attention, options);
    if (check.stopped(last)) return;
    elapsed_ns.push_back(last.elapsed_ns);
  }
  check.add_untimed(last, std::move(elapsed_ns));
}

}  // namespace

gpu::Program program_of(const Design& design, const Plan& plan) {
  gpu::Program program{.problem = plan.stages.front().problem, .kernels = {}};
  for (const Stage& stage : plan.stages)
    program.kernels.push_back(kernel_of(stage));
  for (const gpu::Program::Kernel& kernel : program.kernels) {
    for (const auto& lane : kernel.lanes) {
      for (const gpu::Stint& stint : lane)
        program.buffers = std::max(program.buffers, stint.buffer + 1);
    }
  }
  // Several heads' chains, each with dK and dV of its own.
  if (program.problem.combine != Combine::none) program.head_sums = design.head_sums;
  return program;
}

Execution execute(const ExecutionRequest& request) {
  tell(request, "playing the design", 0);
  Execution execution{.analysis = analyze(request.selection, request.request),
                      .problem = request.request.problem,
                      .dtype = request.dtype,
                      .head_dim = request.request.head_dim,
                      .seed = request.seed,
                      .perturb = request.perturb,
                      .threads = threads_of(request.threads),
                      .device = request.cuda ? request.cuda->name : gpu::cpu_name(),
                      .cuda = request.cuda,
                      .timeout = timeout_of(request),
                      .asked = request.repeats};
  if (execution.analysis.table) {
    throw Error(ErrorKind::usage, request.selection.text + " is not run by free lanes");
  }
  const gpu::Program program = program_of(*request.selection.design, execution.analysis.plan);
  const gpu::AttentionShape shape = gpu::attention_shape(program.problem, request.request.head_dim);
  expect_runs_there(program, execution);
  expect_fits(program, shape, request.adds_partials, execution);
  const auto fault = gpu::fault_of(program);
  STAGGER_EXPECTS(!fault);
  execution.device_reference =
      workbench::uses_device_reference(request.reference, request.cuda.has_value(), shape);
  const workbench::JudgedProblem problem =
      workbench::judged_problem(program.problem, shape, request.seed, request.reference,
                                execution.device_reference, request.progress);
  execution.flops = gpu::backward_flops(problem.attention);
  execution.bound = gpu::error_bound(shape, request.dtype);
  Check check(program, problem.attention, execution);
  run_checked(request, program, problem.attention, check, execution);
  if (execution.repeats == 0) return execution;
  if (problem.exact) check.judge(*problem.exact);
  if (execution.cuda && execution.ok() && !execution.cut_short) {
    run_untimed(request, program, problem.attention, check, execution);
  }
  return execution;
}

}  // namespace stagger::designs
