#pragma once

// What kernels multiply, and one number for all that they leave.

#include "gpu/overlap/reference.hpp"

#include <cuda_bf16.h>

#include <cstdint>

namespace stagger::gpu::overlap {

/// Fills an array with an input's elements.
static __global__ void fill_input(__nv_bfloat16* values, std::int64_t size, Input which) {
  const std::int64_t threads = std::int64_t{gridDim.x} * blockDim.x;
  for (auto i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < size; i += threads)
    values[i] = __float2bfloat16_rn(input(which, i));
}

/// Adds to `digest` a number that depends on every element and its place.
static __global__ void add_digest(const std::uint16_t* values, std::int64_t size,
                                  unsigned long long* digest) {
  const std::int64_t threads = std::int64_t{gridDim.x} * blockDim.x;
  unsigned long long sum = 0;
  for (auto i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < size; i += threads) {
    unsigned long long mixed =
        (static_cast<unsigned long long>(i) << 16 | values[i]) * 0x9E3779B97F4A7C15ULL;
    mixed ^= mixed >> 32;
    sum += mixed * 0xD6E8FEB86659FD93ULL;
  }
  atomicAdd(digest, sum);
}

}  // namespace stagger::gpu::overlap
