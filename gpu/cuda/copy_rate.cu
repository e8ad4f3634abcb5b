#include "core/median.hpp"
#include "gpu/cuda/copy_rate.hpp"
#include "gpu/cuda/device_buffer.cuh"
#include "gpu/cuda/stopwatch.cuh"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace stagger::gpu {
namespace {

constexpr std::size_t kBytes = 500'000'000;
constexpr int kCopies = 50;
constexpr int kCounted = 10;  ///< the last of them: the first ones bring the clock up

}  // namespace

std::int64_t copy_bytes_per_ns_on_cuda() {
  cuda::DeviceBuffer<char> from(kBytes);
  const cuda::DeviceBuffer<char> to(kBytes);
  from.fill(1);
  cuda::Stopwatch stopwatch;
  const auto ns_of_copy = [&] {
    cuda::hold_stream();
    stopwatch.begin();
    STAGGER_CUDA_TRY(cudaMemcpyAsync(to.data(), from.data(), kBytes, cudaMemcpyDeviceToDevice));
    stopwatch.end();
    return stopwatch.elapsed();
  };
  std::vector<std::int64_t> ns(kCopies);
  std::ranges::generate(ns, ns_of_copy);
  ns.erase(ns.begin(), ns.end() - kCounted);
  const auto moved = static_cast<std::int64_t>(2 * kBytes);
  return std::max<std::int64_t>(moved / std::max<std::int64_t>(median(std::move(ns)), 1), 1);
}

}  // namespace stagger::gpu
