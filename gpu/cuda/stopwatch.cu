#include "gpu/cuda/semaphore.cuh"
#include "gpu/cuda/stopwatch.cuh"

namespace stagger::gpu::cuda {
namespace {

/// Of a host that has slept some 20 us are spent on a pass's launches; 30 were as good as these.
constexpr std::int64_t kHeldNs = 100'000;

__global__ void spin_alone(std::int64_t ns) {
  spin(ns);
}

}  // namespace

void hold_stream() {
  spin_alone<<<1, 1>>>(kHeldNs);
  STAGGER_CUDA_TRY(cudaGetLastError());
}

}  // namespace stagger::gpu::cuda
