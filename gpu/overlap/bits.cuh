#pragma once

// Random bits on a GPU: a kernel that makes nothing else, and warps of another kernel that make
// them while its own work is under way.

#include "gpu/overlap/work.hpp"

#include <cstdint>

namespace stagger::gpu::overlap {

inline constexpr int kBitsThreads = 128;  ///< of a CTA of the kernel that makes bits alone

/// A kernel that makes bits, by warps that take every so many-th chunk: a grid of any size makes
/// them all.
template <int kBits, int kRounds>
__global__ void __launch_bounds__(kBitsThreads)
    make_all_bits(const __grid_constant__ BitsWork work) {
  const auto warps = static_cast<std::int32_t>(gridDim.x * (kBitsThreads / 32));
  auto chunk = static_cast<std::int32_t>(blockIdx.x * (kBitsThreads / 32) + threadIdx.x / 32);
  for (; chunk < work.chunks(); chunk += warps)
    make_bits<kBits, kRounds>(work, chunk, static_cast<std::int32_t>(threadIdx.x % 32));
}

/// Compares words with those that keep_word() makes, and counts the ones that differ.
static __global__ void compare_bits(const __grid_constant__ BitsWork work,
                                    unsigned long long* different) {
  const auto threads = static_cast<std::int32_t>(gridDim.x * blockDim.x);
  auto word = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  unsigned long long found = 0;
  for (; word < work.words; word += threads) {
    const WordPlace at = word_place(work, static_cast<std::int32_t>(word));
    const std::uint32_t wanted = keep_word(work.rule, at.row, static_cast<std::uint32_t>(at.place));
    if (work.to[word] != wanted) ++found;
  }
  if (found > 0) atomicAdd(different, found);
}

}  // namespace stagger::gpu::overlap
