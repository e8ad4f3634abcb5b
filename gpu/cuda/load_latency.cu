#include "core/median.hpp"
#include "gpu/cuda/device_buffer.cuh"
#include "gpu/cuda/load_latency.hpp"
#include "gpu/cuda/stopwatch.cuh"

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

namespace stagger::gpu {
namespace {

constexpr std::uint32_t kPageLines = 16'384;  ///< of 2 MiB, so that few loads wait for an address
constexpr std::uint32_t kLines = 8 * kPageLines;
constexpr int kRounds = 5;

/// What L2 keeps together.
struct alignas(128) Line {
  std::uint32_t next = 0;
};

/// A chain through every line once and back to the first: page by page, within one in random
/// order, which nothing fetches ahead.
std::vector<Line> chain() {
  std::mt19937 random(1);
  std::vector<std::uint32_t> order(kLines);
  std::iota(order.begin(), order.end(), 0U);
  for (std::uint32_t page = 0; page < kLines; page += kPageLines) {
    for (std::uint32_t line = kPageLines - 1; line > 0; --line)
      std::swap(order[page + line], order[page + random() % (line + 1)]);
  }
  std::vector<Line> lines(kLines);
  for (std::uint32_t at = 0; at < kLines; ++at)
    lines[order[at]].next = order[(at + 1) % kLines];
  return lines;
}

__global__ void chase(const Line* lines, std::uint32_t* last) {
  std::uint32_t line = 0;
  for (std::uint32_t load = 0; load < kLines; ++load)
    line = __ldcg(&lines[line].next);
  *last = line;
}

std::size_t flood_bytes() {
  int device = 0;
  int l2_bytes = 0;
  STAGGER_CUDA_TRY(cudaGetDevice(&device));
  STAGGER_CUDA_TRY(cudaDeviceGetAttribute(&l2_bytes, cudaDevAttrL2CacheSize, device));
  return 8 * static_cast<std::size_t>(l2_bytes);
}

}  // namespace

LoadLatency load_latency_on_cuda() {
  const cuda::DeviceBuffer<Line> lines(chain());
  const cuda::DeviceBuffer<std::uint32_t> last(1);
  cuda::DeviceBuffer<char> flood(flood_bytes());
  cuda::Stopwatch stopwatch;
  const auto ns_of_load = [&] {
    stopwatch.begin();
    chase<<<1, 1>>>(lines.data(), last.data());
    STAGGER_CUDA_TRY(cudaGetLastError());
    stopwatch.end();
    return stopwatch.elapsed() / kLines;
  };
  static_cast<void>(ns_of_load());  // the clock of an idle device goes up
  std::vector<std::int64_t> l2;
  std::vector<std::int64_t> memory;
  for (int round = 0; round < kRounds; ++round) {
    flood.fill(round);
    memory.push_back(ns_of_load());
    l2.push_back(ns_of_load());
  }
  return {.l2 = median(std::move(l2)), .memory = median(std::move(memory))};
}

}  // namespace stagger::gpu
