#include "core/error.hpp"
#include "gpu/cuda_executor.hpp"
#include "gpu/cuda_lanes.cuh"
#include "gpu/cuda_runner.cuh"
#include "gpu/portable_tile.cuh"

#include <algorithm>

namespace stagger::gpu {
namespace {

std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

__global__ void __launch_bounds__(kCudaThreads)
    portable(CudaTable table, CudaRun run, PortableParameters parameters) {
  extern __shared__ float shared[];
  PortableTile tile(parameters, run.mode, shared);
  LanePlayer(table, run, tile).play();
}

/// By masked tile and query: what TokenMask says of it. The same in
/// every head.
std::vector<CudaKeys> partial_keys(const Problem& problem, const TokenMask& mask,
                                   std::int32_t tile_q) {
  std::vector<CudaKeys> keys;
  for (const auto& [kv, q] : masked_tiles(problem)) {
    for (std::int64_t place = 0; place < tile_q; ++place) {
      const std::int64_t query = q.value * problem.shape.q + place;
      KeyRange seen;
      if (query < problem.lengths.q) seen = mask.keys(query, kv);
      const std::int64_t first = seen.begin == seen.end ? seen.begin : kv.value * problem.shape.kv;
      keys.push_back({.begin = static_cast<std::int32_t>(seen.begin - first),
                      .end = static_cast<std::int32_t>(seen.end - first)});
    }
  }
  return keys;
}

std::vector<float> rounded(const std::vector<double>& values) {
  std::vector<float> floats(values.size());
  std::transform(values.begin(), values.end(), floats.begin(),
                 [](double value) { return static_cast<float>(value); });
  return floats;
}

/// An attention problem in device memory.
class PortableProblem {
 public:
  PortableProblem(const Table& table, const Attention& attention, const BackwardOptions& options)
      : tile_q_(
            static_cast<std::int32_t>(std::min(table.problem.shape.q, table.problem.lengths.q))),
        q_(attention.inputs.q),
        k_(attention.inputs.k),
        v_(attention.inputs.v),
        d_out_(attention.inputs.d_out),
        lse_(rounded(attention.forward.lse)),
        delta_(rounded(attention.forward.delta)),
        keys_(partial_keys(table.problem, attention.mask, tile_q_)),
        dq_(attention.shape.q_elements()),
        dk_(attention.shape.kv_elements()),
        dv_(attention.shape.kv_elements()),
        partials_((options.keep_partials ? table.slots.size()
                                         : at(resident_lanes(table.problem, options.residency))) *
                  at(tile_q_) * attention.shape.dim()) {
    // dQ begins with 0, and so do dK and dV of a KV tile that nobody sees.
    for (DeviceBuffer<float>* gradient : {&dq_, &dk_, &dv_, &partials_})
      gradient->fill(0);
    const Problem& problem = table.problem;
    parameters_ = {
        .q = q_.data(),
        .k = k_.data(),
        .v = v_.data(),
        .d_out = d_out_.data(),
        .lse = lse_.data(),
        .delta = delta_.data(),
        .keys = keys_.data(),
        .dq = dq_.data(),
        .dk = dk_.data(),
        .dv = dv_.data(),
        .partials = partials_.data(),
        .keep_partials = options.keep_partials,
        .seq_q = attention.shape.seq_q,
        .seq_kv = attention.shape.seq_kv,
        .head_dim = attention.shape.head_dim,
        .tile_q = tile_q_,
        .tile_kv = static_cast<std::int32_t>(std::min(problem.shape.kv, problem.lengths.kv)),
        .scale = static_cast<float>(attention.shape.scale())};
  }

  [[nodiscard]] const PortableParameters& parameters() const { return parameters_; }

  void download(Backward& result) const {
    result.gradients = {.dq = dq_.download(), .dk = dk_.download(), .dv = dv_.download()};
    if (parameters_.keep_partials) result.partials = partials_.download();
  }

 private:
  std::int32_t tile_q_;
  DeviceBuffer<float> q_;
  DeviceBuffer<float> k_;
  DeviceBuffer<float> v_;
  DeviceBuffer<float> d_out_;
  DeviceBuffer<float> lse_;
  DeviceBuffer<float> delta_;
  DeviceBuffer<CudaKeys> keys_;
  DeviceBuffer<float> dq_;
  DeviceBuffer<float> dk_;
  DeviceBuffer<float> dv_;
  DeviceBuffer<float> partials_;
  PortableParameters parameters_;
};

}  // namespace

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
  const PortableProblem problem(table, attention, options);
  CudaRunner runner(table, options);
  Backward result = runner.play(
      {portable, problem.parameters(),
       CudaRunner::shared_bytes(problem.parameters().shared_bytes()), kCudaThreads});
  problem.download(result);
  return result;
}

}  // namespace stagger::gpu
