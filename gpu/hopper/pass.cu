#include "core/error.hpp"
#include "core/limits.hpp"
#include "gpu/hopper/dispatch.cuh"
#include "gpu/hopper/kernel.cuh"
#include "gpu/hopper/pass.cuh"
#include "gpu/hopper/passes.cuh"
#include "gpu/hopper/tensor_map.cuh"

#include <bit>

namespace stagger::gpu::hopper {

/// The kernels of a shape and a format.
struct Kernels {
  template <class T, int kHeadDim, int kStepQ>
  static const Kernels& of() {
    static const Kernels kernels = {.shared_bytes = sizeof(SharedMemory<T, kHeadDim, kStepQ>),
                                    .before = &Pass::preprocess_with<T, kHeadDim, kStepQ>,
                                    .after = &Pass::convert_with<T, kHeadDim, kStepQ>};
    return kernels;
  }

  std::size_t shared_bytes;
  void (Pass::*before)(const cuda::DeviceRun&, cudaStream_t) const;
  void (Pass::*after)(const cuda::DeviceRun&, cudaStream_t) const;
};

namespace {

unsigned blocks(std::int64_t threads) {
  return static_cast<unsigned>((threads + kPassThreads - 1) / kPassThreads);
}

const Kernels& kernels_of(const Shape& shape, Dtype dtype) {
  return with_shape(
      shape, dtype,
      []<class T, int kHeadDim, int kStepQ>(Instance<T, kHeadDim, kStepQ>) -> const Kernels& {
        return Kernels::of<T, kHeadDim, kStepQ>();
      });
}

/// Returns the kernel that plays a plan's table.
const void* main_kernel_of(const Plan& plan, bool drops) {
  if (plan.in_order) {
    if (drops) return main_kernel<Extras::ordered_dropout>(plan.shape, plan.dtype);
    if (plan.has_bits) return main_kernel<Extras::ordered_bits>(plan.shape, plan.dtype);
    return main_kernel<Extras::ordered>(plan.shape, plan.dtype);
  }
  if (drops) return main_kernel<Extras::dropout>(plan.shape, plan.dtype);
  if (plan.has_bits) return main_kernel<Extras::bits>(plan.shape, plan.dtype);
  return main_kernel<Extras::none>(plan.shape, plan.dtype);
}

/// A tensor's sizes beside its dim.
struct Extent {
  std::int32_t batch;
  std::int32_t heads;
  std::int64_t rows;
};

/// Describes a tensor to the copy engine, by boxes of `rows` rows and a panel's columns, swizzled
/// as wgmma reads them.
CUtensorMap tensor_map(const Tensor& tensor, const Extent& extent, const Plan& plan,
                       std::int32_t rows) {
  constexpr cuuint64_t kBytes = 2;  // of an element
  const auto dim = static_cast<cuuint64_t>(plan.sizes.head_dim);
  const cuuint64_t sizes[] = {dim, static_cast<cuuint64_t>(extent.rows),
                              static_cast<cuuint64_t>(extent.heads),
                              static_cast<cuuint64_t>(extent.batch)};
  // A dimension of one has any stride: one that the driver takes.
  const auto stride = [dim](std::int64_t size, std::int64_t elements) {
    return kBytes * (size == 1 ? dim : static_cast<cuuint64_t>(elements));
  };
  const cuuint64_t strides[] = {stride(extent.rows, tensor.row), stride(extent.heads, tensor.head),
                                stride(extent.batch, tensor.batch)};
  return encoded_map(plan.dtype == Dtype::bf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                               : CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
                     tensor.data, sizes, strides, rows);
}

/// dK or dV of every part, in the workspace.
Tensor of_parts(void* data, const Sizes& sizes) {
  const std::int64_t part = sizes.seq_kv * sizes.head_dim;
  return {.data = data, .batch = sizes.parts() * part, .row = sizes.head_dim, .head = part};
}

// Marks::step is one bit, and log2_steps exact.
constexpr bool steps_fit() {
  for (const Shape& shape : kShapes) {
    if (shape.tile_q != shape.step_q && shape.tile_q != 2 * shape.step_q) return false;
  }
  return true;
}
static_assert(steps_fit());

// Marks::bits has a place for every step of kMaxBitBytes.
static_assert(kMaxBitBytes / SeenBits{64}.bytes() < std::int64_t{1} << 24);

}  // namespace

Pass::Pass(const Plan& plan, const Call& call)
    : plan_(plan), call_(call), kernels_(kernels_of(plan.shape, plan.dtype)) {
  const Sizes& sizes = plan.sizes;
  const Extent queries = {sizes.batch, sizes.heads, sizes.seq_q};
  const Extent keys = {sizes.batch, sizes.heads_kv, sizes.seq_kv};
  const Tensors& tensors = call.tensors;
  // A KV head's only part is its gradient, and so is the sum that the last of several takes.
  const bool adds = plan.has_parts();
  const Extent parts = {sizes.batch, adds ? sizes.parts() : sizes.heads_kv, sizes.seq_kv};
  const Tensor dk = adds ? of_parts(of_workspace<void>(plan.workspace.dk), sizes) : tensors.dk;
  const Tensor dv = adds ? of_parts(of_workspace<void>(plan.workspace.dv), sizes) : tensors.dv;
  parameters_ = {.q = tensor_map(tensors.q, queries, plan, sizes.step_q),
                 .d_out = tensor_map(tensors.d_out, queries, plan, sizes.step_q),
                 .k = tensor_map(tensors.k, keys, plan, kTileKv),
                 .v = tensor_map(tensors.v, keys, plan, kTileKv),
                 .dk = tensor_map(dk, parts, plan, kWarpKeys),
                 .dv = tensor_map(dv, parts, plan, kWarpKeys),
                 .heads = Divisor(sizes.heads),
                 .group = Divisor(sizes.group()),
                 .span = Divisor(sizes.span),
                 .stats = of_workspace<float>(plan.workspace.stats),
                 .queries = of_plan<SeenQueries>(plan.layout.queries),
                 .bits = of_plan<std::byte>(plan.layout.bits),
                 .in_ranges = plan.in_ranges,
                 .dq_sums = of_workspace<float>(plan.workspace.dq_sums),
                 .partials = call.partials,
                 .log2_steps = std::countr_zero(static_cast<std::uint32_t>(sizes.steps)),
                 .scale = call.scale,
                 .q_tiles = sizes.q_tiles};
  if (call.dropout) parameters_.dropout = *call.dropout;
  if (!plan.in_order) return;
  parameters_.dkv_sums = {of_workspace<float>(plan.workspace.dk),
                          of_workspace<float>(plan.workspace.dv)};
  parameters_.dkv_partials = {call.dk_partials, call.dv_partials};
}

cuda::Kernel Pass::kernel() const {
  return {main_kernel_of(plan_, call_.dropout.has_value()), &parameters_,
          cuda::Runner::shared_bytes(kernels_.shared_bytes), kThreads};
}

cuda::DeviceTable Pass::table() const {
  return {.slots = of_plan<cuda::DeviceSlot>(plan_.layout.slots),
          .lane_begin = of_plan<std::int64_t>(plan_.layout.lane_begin),
          .lanes = plan_.lanes,
          .q_tiles = plan_.sizes.q_tiles,
          .kv_tiles = plan_.sizes.kv_tiles,
          .span = plan_.sizes.span,
          .parts = plan_.sizes.group_parts(),
          .dkv_ranks = plan_.in_order ? of_plan<std::int32_t>(plan_.layout.dkv_ranks) : nullptr};
}

cuda::DeviceRun Pass::untimed_run() const {
  auto* const flags = of_workspace<std::int32_t>(plan_.workspace.flags);
  return {
      .mode = call_.mode,
      .timeout_ns = call_.timeout_ns,
      .locks = of_workspace<std::int32_t>(plan_.workspace.locks),
      .dkv_locks = plan_.in_order ? of_workspace<std::int32_t>(plan_.workspace.dkv_locks) : nullptr,
      .lanes_taken = flags,
      .stop = flags + 1,
      .late = call_.late};
}

void Pass::before(const cuda::DeviceRun& run, cudaStream_t stream) const {
  if (run.mode != Mode::deterministic) {  // where rank 0 would have stored
    STAGGER_CUDA_TRY(cudaMemsetAsync(parameters_.dq_sums, 0,
                                     at(plan_.workspace.stats - plan_.workspace.dq_sums), stream));
  }
  if (plan_.in_order) clear_dkv(run, stream);
  (this->*kernels_.before)(run, stream);
}

void Pass::clear_dkv(const cuda::DeviceRun& run, cudaStream_t stream) const {
  STAGGER_CUDA_TRY(cudaMemsetAsync(
      run.dkv_locks, 0, at(plan_.sizes.all_kv_tiles() * kDkvWarps) * sizeof(std::int32_t), stream));
  if (run.mode != Mode::atomic) return;  // rank 0 stores
  STAGGER_CUDA_TRY(cudaMemsetAsync(parameters_.dkv_sums.dk, 0,
                                   at(plan_.workspace.dkv_locks - plan_.workspace.dk), stream));
}

void Pass::after(const cuda::DeviceRun& run, cudaStream_t stream) const {
  (this->*kernels_.after)(run, stream);
}

template <class T, int kHeadDim, int kStepQ>
void Pass::preprocess_with(const cuda::DeviceRun& run, cudaStream_t stream) const {
  const Sizes& sizes = plan_.sizes;
  preprocess<T, kHeadDim, kStepQ>
      <<<blocks(sizes.all_steps() * kStepQ * (kHeadDim / 8)), kPassThreads, 0, stream>>>(
          sizes, parameters_.heads, run, Rows<const T>(call_.tensors.d_out),
          Rows<const T>(call_.tensors.out), Rows<const float>(call_.tensors.lse),
          of_workspace<float>(plan_.workspace.stats));
  STAGGER_CUDA_TRY(cudaGetLastError());
}

template <class T, int kHeadDim, int kStepQ>
void Pass::convert_with(const cuda::DeviceRun& run, cudaStream_t stream) const {
  const Sizes& sizes = plan_.sizes;
  Unseen<T> gradients;
  gradients.dk = Rows<T>(call_.tensors.dk);
  gradients.dv = Rows<T>(call_.tensors.dv);
  gradients.seen = of_plan<std::uint8_t>(plan_.layout.seen);
  gradients.heads = Divisor(sizes.heads_kv);
  gradients.any = plan_.has_unseen;
  const bool adds = plan_.has_parts();
  const StopWords words = {.note = call_.note,
                           .words = {.call_id = call_.call_id, .order_digest = call_.order_digest}};
  convert<T, kHeadDim, kStepQ>
      <<<static_cast<unsigned>(sizes.all_steps()), kPassThreads, 0, stream>>>(
          sizes, parameters_.heads, parameters_.dq_sums,
          of_plan<std::int32_t>(plan_.layout.contributions), call_.scale, Rows<T>(call_.tensors.dq),
          adds ? Unseen<T>{} : gradients, run.stop, words);
  STAGGER_CUDA_TRY(cudaGetLastError());
  if (!adds) return;
  const dim3 grid(blocks(sizes.kv_elements() / 8), 2);
  sum_parts<T, kHeadDim>
      <<<grid, kPassThreads, 0, stream>>>(sizes, of_workspace<T>(plan_.workspace.dk),
                                          of_workspace<T>(plan_.workspace.dv), gradients, run.stop);
  STAGGER_CUDA_TRY(cudaGetLastError());
}

std::string device_refusal() {
  int device = 0;
  int major = 0;
  STAGGER_CUDA_TRY(cudaGetDevice(&device));
  STAGGER_CUDA_TRY(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  return major == 9 ? "" : "the hopper kernel is for devices of compute capability 9.0";
}

void upload(const Plan& plan, void* to, void* stream) {
  STAGGER_CUDA_TRY(cudaMemcpyAsync(to, plan.image.data(), plan.image.size(), cudaMemcpyHostToDevice,
                                   static_cast<cudaStream_t>(stream)));
}

void enqueue(const Plan& plan, const Call& call) {
  const Pass pass(plan, call);
  const auto stream = static_cast<cudaStream_t>(call.stream);
  const cuda::Kernel kernel = pass.kernel();
  cuda::DeviceTable table = pass.table();
  cuda::DeviceRun run = pass.untimed_run();
  pass.before(run, stream);
  if (plan.ctas > 0) {
    cuda::admit_shared_bytes(kernel);
    void* arguments[] = {&table, &run, const_cast<void*>(kernel.parameters)};
    cuda::launch(kernel, plan.ctas, arguments,
                 call.late ? cuda::Start::any_time : cuda::Start::together, stream);
  }
  pass.after(run, stream);
}

}  // namespace stagger::gpu::hopper
