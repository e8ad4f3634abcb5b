// A lane is a CTA of an ordinary grid: nobody waits for anybody, so that they may start whenever
// there is room. What a lane makes it adds at once, to places that no other lane of its kernel
// has (gpu/check/program.hpp); kernels follow one another on the stream.
//
//   clear dQ's buffers | kernel 0: a CTA a lane | kernel 1 | … | add buffers | add heads' dK, dV

#include "core/error.hpp"
#include "gpu/check/perturbation.hpp"
#include "gpu/cuda/portable_inputs.cuh"
#include "gpu/cuda/program_executor.hpp"
#include "gpu/cuda/runner.cuh"
#include "gpu/cuda/semaphore.cuh"
#include "gpu/cuda/stopwatch.cuh"

#include <string>

namespace stagger::gpu {
namespace cuda {
namespace {

/// A task of a program as the device reads it.
struct ProgramSlot {
  DeviceSlot slot;  ///< without a rank; a chain is a stint that makes dK and dV
  Makes makes = Makes::all;
  std::int32_t buffer = 0;
  std::int64_t place = 0;  ///< of its dQ partial
};

/// A kernel's lanes in device memory.
struct ProgramLanes {
  const ProgramSlot* slots = nullptr;
  const std::int64_t* lane_begin = nullptr;
  const std::int32_t* order = nullptr;  ///< by CTA: its lane; nullptr: its own number
  std::uint64_t perturb = 0;            ///< seed of the delays of a run that has an order
};

/// What all kernels of a run share, in device memory.
struct ProgramState {
  float* dq = nullptr;  ///< (buffer, head, query, head_dim)
  std::int64_t buffer_elements = 0;
  float* partials = nullptr;  ///< by place; nullptr: none are kept
  std::int64_t partial_elements = 0;
  std::int32_t heads = 0;
  std::int32_t q_tiles = 0;
  const std::int64_t* added_begin = nullptr;  ///< by (buffer, head, q): first of its additions
  std::int32_t* added = nullptr;              ///< KV tiles as they came; nullptr: no witness
  std::int32_t* counts = nullptr;             ///< by (buffer, head, q): additions so far
  std::int64_t* start = nullptr;              ///< of the run, by the clock that SMs share
  std::int64_t timeout_ns = 0;
  std::int32_t* stop = nullptr;  ///< 1: the run was too slow, and every CTA leaves
};

/// Whether the run has taken too long: then everybody is told. For one thread.
__device__ bool is_late(const ProgramState& state) {
  if (is_stopped(state.stop)) return true;
  if (global_time() - *state.start <= state.timeout_ns) return false;
  atomicExch(state.stop, 1);
  return true;
}

/// Leaves who added. For one thread.
__device__ void leave_witness(const ProgramState& state, const ProgramSlot& task) {
  if (state.added == nullptr || task.makes == Makes::dkv) return;
  const std::int64_t target =
      (std::int64_t{task.buffer} * state.heads + task.slot.head) * state.q_tiles + task.slot.q;
  const std::int64_t place = state.added_begin[target] + atomicAdd(state.counts + target, 1);
  if (place < state.added_begin[target + 1]) state.added[place] = task.slot.kv;
}

__global__ void begin_program(std::int64_t* start) {
  *start = global_time();
}

template <class Storage>
__global__ void __launch_bounds__(kThreads)
    play_lane(ProgramLanes lanes, ProgramState state, PortableParameters<Storage> parameters) {
  extern __shared__ float shared[];
  PortableTile<Storage> tile(parameters, Mode::deterministic, shared);
  const bool leads = threadIdx.x == 0;
  auto lane = static_cast<std::int32_t>(blockIdx.x);
  if (lanes.order != nullptr) {
    lane = lanes.order[lane];
    if (leads) spin(std::int64_t{1000} * delay_us(lanes.perturb, lane, 0));
  }
  const std::int64_t end = lanes.lane_begin[lane + 1];
  for (std::int64_t index = lanes.lane_begin[lane]; index < end; ++index) {
    // Also the barrier before the next task overwrites P and dS.
    if (__syncthreads_or(leads && is_late(state))) return;
    const ProgramSlot task = lanes.slots[index];
    if (task.slot.begins_chain) tile.begin_chain(task.slot);
    tile.make(
        task.slot, task.makes, state.dq + task.buffer * state.buffer_elements,
        state.partials == nullptr ? nullptr : state.partials + task.place * state.partial_elements);
    if (leads) leave_witness(state, task);
    if (!task.slot.ends_chain) continue;
    __syncthreads();  // other threads end what these have added
    tile.end_chain(task.slot);
  }
}

/// The pass that adds dQ's buffers upwards and ends the sums: in 16 bits with the scale, rounded.
template <class Storage>
__global__ void __launch_bounds__(kThreads)
    add_buffers(const float* buffers, std::int32_t count, std::int64_t elements, float scale,
                float* sums, float* dq) {
  const std::int64_t index = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (index >= elements) return;
  float sum = 0;
  for (std::int32_t buffer = 0; buffer < count; ++buffer)
    sum += buffers[buffer * elements + index];
  if (sums != nullptr) sums[index] = sum;
  dq[index] = sums == nullptr ? sum : rounded(sum * scale, kDtypeOf<Storage>);
}

/// The pass that adds a group's dK or dV upwards: gpu::sum_of_heads().
template <class Storage>
__global__ void __launch_bounds__(kThreads)
    add_heads(const float* heads, std::int64_t head_elements, std::int32_t group,
              std::int64_t elements, bool before, float scale, float* gradient) {
  const std::int64_t index = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (index >= elements) return;
  const float* member = heads + index / head_elements * group * head_elements;
  member += index % head_elements;
  float sum = 0;
  for (std::int32_t each = 0; each < group; ++each, member += head_elements)
    sum += before ? rounded(*member * scale, kDtypeOf<Storage>) : *member;
  gradient[index] = rounded(before ? sum : sum * scale, kDtypeOf<Storage>);
}

/// CTAs of a pass over so many elements.
unsigned pass_ctas(std::size_t elements) {
  return static_cast<unsigned>((elements + kThreads - 1) / kThreads);
}

/// A kernel's text in device memory.
class KernelText {
 public:
  KernelText(const Problem& problem, const Program::Kernel& kernel, const ProgramOrder& order,
             std::optional<std::uint64_t> perturb)
      : lanes_(static_cast<std::int32_t>(kernel.lanes.size())) {
    const std::vector<std::int32_t> masked =
        masked_places(problem, masked_tiles(problem, TokenMask(problem)));
    std::vector<ProgramSlot> slots;
    std::vector<std::int64_t> lane_begin = {0};
    for (const Program::ProgramLane& lane : kernel.lanes) {
      for (const Stint& stint : lane)
        add(problem, stint, order, masked, slots);
      lane_begin.push_back(std::ssize(slots));
    }
    slots_ = DeviceBuffer<ProgramSlot>(slots);
    lane_begin_ = DeviceBuffer<std::int64_t>(lane_begin);
    if (perturb) {
      order_ = DeviceBuffer<std::int32_t>(Perturbation(perturb).order(lanes_));
      perturb_ = *perturb;
    }
  }

  [[nodiscard]] std::int32_t lanes() const { return lanes_; }
  [[nodiscard]] ProgramLanes view() const {
    return {.slots = slots_.data(),
            .lane_begin = lane_begin_.data(),
            .order = order_.data(),
            .perturb = perturb_};
  }

 private:
  static void add(const Problem& problem, const Stint& stint, const ProgramOrder& order,
                  const std::vector<std::int32_t>& masked, std::vector<ProgramSlot>& slots) {
    const std::int32_t q_tiles = problem.q_tiles();
    const bool chain = stint.makes != Makes::dq;
    for (const Task& task : stint.tasks) {
      const std::int64_t tile = std::int64_t{task.kv.value} * q_tiles + task.q.value;
      slots.push_back({.slot = {.head = task.head.value,
                                .kv = task.kv.value,
                                .q = task.q.value,
                                .rank = 0,
                                .partial = masked[at(tile)],
                                .begins_chain = chain && &task == &stint.tasks.front(),
                                .ends_chain = chain && &task == &stint.tasks.back()},
                       .makes = stint.makes,
                       .buffer = stint.buffer,
                       .place = order.place_of(task, q_tiles)});
    }
  }

  std::int32_t lanes_;
  DeviceBuffer<ProgramSlot> slots_;
  DeviceBuffer<std::int64_t> lane_begin_;
  DeviceBuffer<std::int32_t> order_;
  std::uint64_t perturb_ = 0;
};

/// The places of each dQ tile's additions, one tile after the other.
std::vector<std::int64_t> begins_of(const std::vector<std::vector<KvTile>>& added) {
  std::vector<std::int64_t> begins = {0};
  for (const std::vector<KvTile>& tiles : added)
    begins.push_back(begins.back() + std::ssize(tiles));
  return begins;
}

/// What a run of a program leaves, in device memory.
struct ProgramMemory {
  ProgramMemory(const Program& program, const AttentionShape& shape, const ProgramOrder& order,
                const ProgramOptions& options)
      : buffers(shape.q_elements() * at(program.buffers)),
        dq(shape.q_elements()),
        dq_sums(options.dtype == Dtype::fp32 ? 0 : shape.q_elements()),
        dk_parts(shape.kv_elements() * at(program.problem.group_parts())),
        dv_parts(shape.kv_elements() * at(program.problem.group_parts())),
        dk(program.head_sums == HeadSums::none ? 0 : shape.kv_elements()),
        dv(program.head_sums == HeadSums::none ? 0 : shape.kv_elements()),
        partials(options.keep_partials
                     ? static_cast<std::size_t>(partial_bytes(program, shape)) / sizeof(float)
                     : 0),
        added_begin(options.witnessed ? begins_of(order.added) : std::vector<std::int64_t>{}),
        added(options.witnessed ? at(program.problem.tasks()) : 0),
        counts(options.witnessed ? order.added.size() : 0),
        start(1),
        stop(1) {
    // A KV tile that nobody sees has gradients of 0, and a ragged tile's partial ends with them.
    for (DeviceBuffer<float>* zeros : {&dk_parts, &dv_parts, &partials})
      zeros->fill(0);
    added.fill(0);
    counts.fill(0);
    stop.fill(0);
  }

  DeviceBuffer<float> buffers;
  DeviceBuffer<float> dq;
  DeviceBuffer<float> dq_sums;
  DeviceBuffer<float> dk_parts;  ///< gradients where a KV head has one part
  DeviceBuffer<float> dv_parts;
  DeviceBuffer<float> dk;
  DeviceBuffer<float> dv;
  DeviceBuffer<float> partials;
  DeviceBuffer<std::int64_t> added_begin;
  DeviceBuffer<std::int32_t> added;
  DeviceBuffer<std::int32_t> counts;
  DeviceBuffer<std::int64_t> start;
  DeviceBuffer<std::int32_t> stop;
};

/// The bytes of all that, with inputs and text, more or less.
std::int64_t device_bytes(const Program& program, const AttentionShape& shape,
                          const ProgramOptions& options) {
  const auto q = static_cast<double>(shape.q_elements());
  const auto kv = static_cast<double>(shape.kv_elements());
  const double input_bytes = options.dtype == Dtype::fp32 ? 4 : 2;
  const double bytes = input_bytes * 2 * (q + kv) + 4 * q * (program.buffers + 2) +
                       4 * 2 * kv * (program.problem.group_parts() + 1) +
                       static_cast<double>(program.problem.tasks()) * (2 * sizeof(ProgramSlot) + 4);
  return static_cast<std::int64_t>(std::min(bytes, 0x1p60)) +
         (options.keep_partials ? partial_bytes(program, shape) : 0);
}

void expect_room(std::int64_t bytes) {
  std::size_t free = 0;
  std::size_t total = 0;
  STAGGER_CUDA_TRY(cudaMemGetInfo(&free, &total));
  if (bytes <= static_cast<std::int64_t>(free)) return;
  throw Error(ErrorKind::device, "the run takes about " + std::to_string(bytes >> 20) +
                                     " MiB of device memory; " + std::to_string(free >> 20) +
                                     " are free");
}

/// A program, its problem and its run on the device.
template <class Storage>
class DeviceProgram {
 public:
  DeviceProgram(const Program& program, const Attention& attention, const ProgramOptions& options)
      : program_(program),
        options_(options),
        shape_(attention.shape),
        order_(order_of(program)),
        inputs_(program.problem, attention),
        memory_(program, attention.shape, order_, options) {
    for (const Program::Kernel& kernel : program.kernels)
      texts_.emplace_back(program.problem, kernel, order_, options.perturb);
    parameters_ = inputs_.parameters();
    parameters_.dk = memory_.dk_parts.data();
    parameters_.dv = memory_.dv_parts.data();
    const auto timeout = options.timeout.count() == 0 ? kLongestProgram : options.timeout;
    state_ = {.dq = memory_.buffers.data(),
              .buffer_elements = static_cast<std::int64_t>(shape_.q_elements()),
              .partials = memory_.partials.data(),
              .partial_elements = std::int64_t{parameters_.tile_q} * shape_.head_dim,
              .heads = program.problem.heads,
              .q_tiles = program.problem.q_tiles(),
              .added_begin = memory_.added_begin.data(),
              .added = memory_.added.data(),
              .counts = memory_.counts.data(),
              .start = memory_.start.data(),
              .timeout_ns = std::chrono::nanoseconds(timeout).count(),
              .stop = memory_.stop.data()};
  }

  ProgramRun run() {
    const Kernel kernel(reinterpret_cast<const void*>(play_lane<Storage>), nullptr,
                        Runner::shared_bytes(parameters_.shared_bytes()), kThreads);
    admit_shared_bytes(kernel);
    Stopwatch stopwatch;
    hold_stream();
    begin_program<<<1, 1>>>(memory_.start.data());
    STAGGER_CUDA_TRY(cudaGetLastError());
    stopwatch.begin();
    memory_.buffers.fill(0);
    for (const KernelText& text : texts_)
      play(kernel, text);
    add_dq();
    if (program_.head_sums != HeadSums::none) {
      add_group(memory_.dk_parts, memory_.dk, parameters_.scale);
      add_group(memory_.dv_parts, memory_.dv, 1);
    }
    stopwatch.end();
    ProgramRun result;
    result.elapsed_ns = stopwatch.elapsed();
    if (memory_.stop.download()[0] != 0) result.outcome = Outcome::timeout;
    download(result);
    return result;
  }

 private:
  void play(const Kernel& kernel, const KernelText& text) {
    if (text.lanes() == 0) return;
    ProgramLanes lanes = text.view();
    void* arguments[] = {&lanes, &state_, &parameters_};
    launch(kernel, text.lanes(), arguments, Start::any_time, nullptr);
  }

  void add_dq() {
    const std::size_t elements = shape_.q_elements();
    add_buffers<Storage><<<pass_ctas(elements), kThreads>>>(
        memory_.buffers.data(), program_.buffers, static_cast<std::int64_t>(elements),
        parameters_.scale, memory_.dq_sums.data(), memory_.dq.data());
    STAGGER_CUDA_TRY(cudaGetLastError());
  }

  void add_group(const DeviceBuffer<float>& heads, const DeviceBuffer<float>& gradient,
                 float scale) {
    const std::size_t elements = shape_.kv_elements();
    add_heads<Storage><<<pass_ctas(elements), kThreads>>>(
        heads.data(), shape_.seq_kv * shape_.head_dim, shape_.group(),
        static_cast<std::int64_t>(elements), program_.head_sums == HeadSums::rounded, scale,
        gradient.data());
    STAGGER_CUDA_TRY(cudaGetLastError());
  }

  void download(ProgramRun& result) const {
    const bool heads = program_.head_sums != HeadSums::none;
    result.gradients.dq = memory_.dq.download();
    result.gradients.dk = (heads ? memory_.dk : memory_.dk_parts).download();
    result.gradients.dv = (heads ? memory_.dv : memory_.dv_parts).download();
    result.dq_sums = memory_.dq_sums.download();
    result.partials = memory_.partials.download();
    if (heads) {
      result.dk_heads = memory_.dk_parts.download();
      result.dv_heads = memory_.dv_parts.download();
    }
    if (options_.witnessed) result.witness = witness();
  }

  /// What was added to each dQ tile; more than it has tasks would show in its length.
  [[nodiscard]] std::vector<std::vector<KvTile>> witness() const {
    const std::vector<std::int32_t> counts = memory_.counts.download();
    const std::vector<std::int32_t> added = memory_.added.download();
    std::vector<std::vector<KvTile>> tiles(order_.added.size());
    std::size_t place = 0;
    for (std::size_t target = 0; target < tiles.size(); ++target) {
      const std::size_t room = order_.added[target].size();
      for (std::size_t n = 0; n < std::min(room, at(counts[target])); ++n)
        tiles[target].push_back(KvTile{added[place + n]});
      if (at(counts[target]) > room) tiles[target].push_back(KvTile{-1});
      place += room;
    }
    return tiles;
  }

  const Program& program_;
  const ProgramOptions& options_;
  const AttentionShape& shape_;
  const ProgramOrder order_;
  PortableInputs<Storage> inputs_;
  ProgramMemory memory_;
  std::vector<KernelText> texts_;
  PortableParameters<Storage> parameters_;
  ProgramState state_;
};

}  // namespace
}  // namespace cuda

ProgramRun program_on_cuda(const Program& program, const Attention& attention,
                           const ProgramOptions& options) {
  const Problem& problem = program.problem;
  STAGGER_EXPECTS(program.buffers >= 1);
  STAGGER_EXPECTS(attention.shape == attention_shape(problem, attention.shape.head_dim));
  STAGGER_EXPECTS(is_exact(attention.inputs, options.dtype));
  STAGGER_EXPECTS(!attention.dropout);
  // What comes together is each head's.
  STAGGER_EXPECTS((program.head_sums == HeadSums::none) == (problem.group_parts() == 1));
  STAGGER_EXPECTS(program.head_sums == HeadSums::none || problem.span == 1);
  cuda::expect_room(cuda::device_bytes(program, attention.shape, options));
  switch (options.dtype) {
    case Dtype::bf16:
      return cuda::DeviceProgram<__nv_bfloat16>(program, attention, options).run();
    case Dtype::fp16:
      return cuda::DeviceProgram<__half>(program, attention, options).run();
    case Dtype::fp32:
      break;
  }
  return cuda::DeviceProgram<float>(program, attention, options).run();
}

}  // namespace stagger::gpu
