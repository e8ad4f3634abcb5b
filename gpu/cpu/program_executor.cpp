// Threads take lanes one after the other, in any order; a kernel ends when all of its lanes have.
// No two lanes of a kernel write to one place (gpu/check/program.hpp), so that nothing is locked:
// what a gradient's bits depend on is the order within lanes, and that of the buffers.

#include "gpu/cpu/program_executor.hpp"

#include "core/error.hpp"
#include "gpu/check/perturbation.hpp"
#include "gpu/cpu/tile.hpp"
#include "gpu/numerics/rounding.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

namespace stagger::gpu {
namespace {

using Clock = std::chrono::steady_clock;

class ProgramExecutor {
 public:
  ProgramExecutor(const Program& program, const Attention& attention, const ProgramOptions& options)
      : program_(program),
        options_(options),
        shape_(attention.shape),
        tile_(program.problem, attention, options.dtype),
        perturbation_(options.perturb),
        order_(order_of(program)),
        buffers_(at(program.buffers), std::vector<float>(shape_.q_elements(), 0)) {
    result_.gradients.dk.assign(shape_.kv_elements(), 0);
    result_.gradients.dv.assign(shape_.kv_elements(), 0);
    if (program.head_sums != HeadSums::none) {
      result_.dk_heads.assign(shape_.kv_elements() * at(shape_.group()), 0);
      result_.dv_heads = result_.dk_heads;
    }
    if (options.keep_partials) {
      result_.partials.assign(at(program.problem.tasks()) * tile_.partial_elements(), 0);
    }
    result_.witness.resize(order_.added.size());
  }

  ProgramRun run() {
    const Clock::time_point start = Clock::now();
    if (options_.timeout.count() > 0) deadline_ = start + options_.timeout;
    for (const Program::Kernel& kernel : program_.kernels)
      play(kernel);
    if (late_) result_.outcome = Outcome::timeout;
    end();
    result_.elapsed_ns =
        std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
    return std::move(result_);
  }

 private:
  void play(const Program::Kernel& kernel) {
    const std::vector<std::int32_t> lanes =
        perturbation_.order(static_cast<std::int32_t>(kernel.lanes.size()));
    std::atomic<std::size_t> next = 0;
    const auto work = [&] {
      cpu::SmMemory memory = tile_.memory();
      for (std::size_t index = next++; index < lanes.size(); index = next++) {
        perturbation_.delay(lanes[index], 0);
        for (const Stint& stint : kernel.lanes[at(lanes[index])])
          play(stint, memory);
      }
    };
    std::vector<std::jthread> workers;
    try {
      while (std::ssize(workers) + 1 < options_.threads)
        workers.emplace_back(work);
    } catch (const std::system_error&) {
      // The machine gives no more threads; any number of them will do.
    }
    work();
  }

  void play(const Stint& stint, cpu::SmMemory& memory) {
    for (const Task& task : stint.tasks) {
      if (is_late()) return;
      const bool first = &task == &stint.tasks.front();
      if (first || stint.makes == Makes::dq) tile_.begin_chain(task, memory);
      tile_.compute(task, memory);
      if (stint.makes != Makes::dkv) add_dq(stint, task, memory);
    }
    if (stint.makes == Makes::dq) return;
    const Task& last = stint.tasks.back();
    if (program_.head_sums == HeadSums::none) {
      tile_.end_chain(last, memory, result_.gradients);
    } else {
      tile_.store_partial(last, memory, result_.dk_heads, result_.dv_heads);
    }
  }

  /// Whether the run has taken too long: then every thread leaves.
  bool is_late() {
    if (deadline_ && Clock::now() > *deadline_) late_ = true;
    return late_;
  }

  void add_dq(const Stint& stint, const Task& task, const cpu::SmMemory& memory) {
    const Problem& problem = program_.problem;
    const std::int32_t q_tiles = problem.q_tiles();
    tile_.add_dq(task, memory.dq, buffers_[at(stint.buffer)]);
    const std::int64_t target =
        (std::int64_t{stint.buffer} * problem.heads + task.head.value) * q_tiles + task.q.value;
    result_.witness[at(target)].push_back(task.kv);
    if (!options_.keep_partials) return;
    std::copy(memory.dq.begin(), memory.dq.end(),
              result_.partials.begin() + order_.place_of(task, q_tiles) * std::ssize(memory.dq));
  }

  /// The passes behind the kernels: dQ's buffers upwards, then heads' dK and dV.
  void end() {
    std::vector<float> sums(shape_.q_elements(), 0);
    for (const std::vector<float>& buffer : buffers_) {
      for (std::size_t index = 0; index < sums.size(); ++index)
        sums[index] += buffer[index];
    }
    const auto scale = static_cast<float>(shape_.scale());
    result_.gradients.dq = sums;
    if (options_.dtype != Dtype::fp32) {
      for (float& element : result_.gradients.dq)
        element = rounded(element * scale, options_.dtype);
      result_.dq_sums = std::move(sums);
    }
    if (program_.head_sums == HeadSums::none) return;
    result_.gradients.dk = sum_of_heads(program_, shape_, result_.dk_heads, scale, options_.dtype);
    result_.gradients.dv = sum_of_heads(program_, shape_, result_.dv_heads, 1, options_.dtype);
  }

  const Program& program_;
  const ProgramOptions& options_;
  const AttentionShape& shape_;
  const cpu::Tile tile_;
  const Perturbation perturbation_;
  const ProgramOrder order_;
  std::vector<std::vector<float>> buffers_;
  std::optional<Clock::time_point> deadline_;
  std::atomic<bool> late_ = false;
  ProgramRun result_;
};

}  // namespace

ProgramRun program_on_cpu(const Program& program, const Attention& attention,
                          const ProgramOptions& options) {
  STAGGER_EXPECTS(options.threads >= 1);
  STAGGER_EXPECTS(program.buffers >= 1);
  STAGGER_EXPECTS(attention.shape == attention_shape(program.problem, attention.shape.head_dim));
  return ProgramExecutor(program, attention, options).run();
}

}  // namespace stagger::gpu
