#include "core/error.hpp"
#include "gpu/cuda/executor.hpp"
#include "gpu/cuda/lanes.cuh"
#include "gpu/cuda/portable_inputs.cuh"
#include "gpu/cuda/runner.cuh"

namespace stagger::gpu {
namespace cuda {
namespace {

template <class Storage, bool kDrops>
__global__ void __launch_bounds__(kThreads)
    portable(DeviceTable table, DeviceRun run, PortableParameters<Storage> parameters) {
  extern __shared__ float shared[];
  PortableTile<Storage, kDrops> tile(parameters, run.mode, shared);
  LanePlayer(table, run, tile).play();
}

/// The pass that combines parts: each KV head's, upwards.
__global__ void __launch_bounds__(kThreads)
    add_parts(const float* partials, float* sums, std::int64_t elements, std::int32_t parts) {
  const std::int64_t index = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (index >= elements) return;
  const float* partial = partials + std::int64_t{blockIdx.y} * parts * elements + index;
  float sum = *partial;
  for (std::int32_t part = 1; part < parts; ++part)
    sum += partial[part * elements];
  sums[std::int64_t{blockIdx.y} * elements + index] = sum;
}

/// What a table's backward pass reads and leaves, in device memory.
template <class Storage>
class PortableProblem {
 public:
  PortableProblem(const Table& table, const Attention& attention, const BackwardOptions& options)
      : inputs_(table.problem, attention),
        dq_(attention.shape.q_elements()),
        dk_(attention.shape.kv_elements() * at(table.problem.group_parts())),
        dv_(attention.shape.kv_elements() * at(table.problem.group_parts())),
        dk_sums_(table.problem.group_parts() > 1 ? attention.shape.kv_elements() : 0),
        dv_sums_(table.problem.group_parts() > 1 ? attention.shape.kv_elements() : 0),
        partials_((options.keep_partials ? table.slots.size()
                                         : at(resident_lanes(table.problem, options.residency))) *
                  at(inputs_.parameters().tile_q) * attention.shape.dim()) {
    // dQ begins with 0, and so do dK and dV of a KV tile that nobody sees.
    for (DeviceBuffer<float>* gradient : {&dq_, &dk_, &dv_, &dk_sums_, &dv_sums_, &partials_})
      gradient->fill(0);
    parameters_ = inputs_.parameters();
    parameters_.dq = dq_.data();
    parameters_.dk = dk_.data();
    parameters_.dv = dv_.data();
    parameters_.dk_sums = dk_sums_.data();
    parameters_.dv_sums = dv_sums_.data();
    parameters_.partials = partials_.data();
    parameters_.keep_partials = options.keep_partials;
  }

  [[nodiscard]] const PortableParameters<Storage>& parameters() const { return parameters_; }

  /// Adds the parts of KV heads that have several and do not add them in order.
  void combine(const Problem& problem) const {
    if (problem.combine != Combine::partials) return;
    const std::int64_t elements = problem.lengths.kv * parameters_.head_dim;
    const dim3 grid(static_cast<unsigned>((elements + kThreads - 1) / kThreads),
                    static_cast<unsigned>(problem.heads_kv));
    add_parts<<<grid, kThreads>>>(dk_.data(), dk_sums_.data(), elements, parameters_.parts);
    add_parts<<<grid, kThreads>>>(dv_.data(), dv_sums_.data(), elements, parameters_.parts);
    STAGGER_CUDA_TRY(cudaGetLastError());
  }

  void download(Backward& result) const {
    result.gradients.dq = dq_.download();
    if (parameters_.keep_partials) result.partials = partials_.download();
    end_dq(result, parameters_.scale, kDtypeOf<Storage>);
    if (parameters_.parts == 1) {
      result.gradients.dk = dk_.download();
      result.gradients.dv = dv_.download();
      return;
    }
    result.dk_sums = dk_sums_.download();
    result.dv_sums = dv_sums_.download();
    if (parameters_.keep_partials) {
      result.dk_partials = dk_.download();
      result.dv_partials = dv_.download();
    }
    result.gradients.dk.resize(result.dk_sums.size());
    result.gradients.dv.resize(result.dv_sums.size());
    end_dkv(result, parameters_.scale, kDtypeOf<Storage>);
  }

 private:
  PortableInputs<Storage> inputs_;
  DeviceBuffer<float> dq_;
  DeviceBuffer<float> dk_;
  DeviceBuffer<float> dv_;
  DeviceBuffer<float> dk_sums_;
  DeviceBuffer<float> dv_sums_;
  DeviceBuffer<float> partials_;
  PortableParameters<Storage> parameters_;
};

template <class Storage>
Backward run_portable(const Table& table, const Attention& attention,
                      const BackwardOptions& options) {
  const PortableProblem<Storage> problem(table, attention, options);
  Runner runner(table, options);
  Backward result = runner.play(
      {attention.dropout ? portable<Storage, true> : portable<Storage, false>, problem.parameters(),
       Runner::shared_bytes(problem.parameters().shared_bytes()), kThreads},
      [](const DeviceRun&) {}, [&](const DeviceRun&) { problem.combine(table.problem); });
  problem.download(result);
  return result;
}

}  // namespace
}  // namespace cuda

bool has_cuda() {
  return true;
}

std::optional<CudaDevice> cuda_device() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
    static_cast<void>(cudaGetLastError());
    return std::nullopt;
  }
  cudaDeviceProp properties;
  int driver = 0;
  STAGGER_CUDA_TRY(cudaGetDeviceProperties(&properties, 0));
  STAGGER_CUDA_TRY(cudaDriverGetVersion(&driver));
  return CudaDevice{
      .name = properties.name,
      .sms = properties.multiProcessorCount,
      .driver = std::to_string(driver / 1000) + "." + std::to_string(driver % 1000 / 10)};
}

Backward backward_on_cuda(const Table& table, const Attention& attention,
                          const BackwardOptions& options) {
  STAGGER_EXPECTS(is_complete(table));
  STAGGER_EXPECTS(attention.shape == attention_shape(table.problem, attention.shape.head_dim));
  STAGGER_EXPECTS(is_exact(attention.inputs, options.dtype));
  switch (options.dtype) {
    case Dtype::bf16:
      return cuda::run_portable<__nv_bfloat16>(table, attention, options);
    case Dtype::fp16:
      return cuda::run_portable<__half>(table, attention, options);
    case Dtype::fp32:
      break;
  }
  return cuda::run_portable<float>(table, attention, options);
}

}  // namespace stagger::gpu
