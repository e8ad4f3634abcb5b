#pragma once

// What the hopper kernel needs before and after it: D and lse as it reads them, dQ as others do.
// Both are bound by memory.

#include "gpu/cuda/table.cuh"
#include "gpu/hopper/shape.hpp"
#include "gpu/hopper/wgmma.cuh"
#include "gpu/numerics/lse.hpp"

#include <cstdint>

namespace stagger::gpu::hopper {

inline constexpr int kPassThreads = 256;

/// Sizes of a problem for the passes.
struct Sizes {
  std::int32_t heads = 0;
  std::int32_t q_tiles = 0;
  std::int32_t steps = 1;  ///< of a Q tile
  std::int64_t seq_q = 0;

  /// Counts the steps that a head has.
  [[nodiscard]] __host__ __device__ std::int32_t q_steps() const { return q_tiles * steps; }
};

/// Returns the sum of eight products.
__device__ inline float product_sum(uint4 left, uint4 right, __nv_bfloat16) {
  const auto* const a = reinterpret_cast<const __nv_bfloat162*>(&left);
  const auto* const b = reinterpret_cast<const __nv_bfloat162*>(&right);
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 x = __bfloat1622float2(a[i]);
    const float2 y = __bfloat1622float2(b[i]);
    sum = __fmaf_rn(x.x, y.x, __fmaf_rn(x.y, y.y, sum));
  }
  return sum;
}
__device__ inline float product_sum(uint4 left, uint4 right, __half) {
  const auto* const a = reinterpret_cast<const __half2*>(&left);
  const auto* const b = reinterpret_cast<const __half2*>(&right);
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 x = __half22float2(a[i]);
    const float2 y = __half22float2(b[i]);
    sum = __fmaf_rn(x.x, y.x, __fmaf_rn(x.y, y.y, sum));
  }
  return sum;
}

/// Writes QueryStats by (head, Q tile, step) from dO, O and lse, with D = rowsum(dO * O); a query
/// beyond the sequence gets lse = infinity, so that its P is 0, as base_2_lse() has it for one that
/// sees nothing. Clears the semaphores and flags of
/// a run. Eight elements a thread, a thread for every eighth element of the padded queries.
template <class T, int kHeadDim, int kStepQ>
__global__ void __launch_bounds__(kPassThreads)
    preprocess(Sizes sizes, cuda::DeviceRun run, const T* d_out, const T* out, const float* lse,
               float* stats) {
  constexpr int kLanes = kHeadDim / 8;  // of a row
  const std::int64_t thread = std::int64_t{blockIdx.x} * kPassThreads + threadIdx.x;
  const std::int64_t steps = std::int64_t{sizes.heads} * sizes.q_steps();
  if (thread < steps) run.locks[thread] = 0;
  if (thread == 0) *run.lanes_taken = *run.stop = 0;
  const std::int64_t step = thread / kLanes / kStepQ;
  if (step >= steps) return;
  const auto place = static_cast<int>(thread / kLanes % kStepQ);
  const std::int64_t query = step % sizes.q_steps() * kStepQ + place;
  const bool exists = query < sizes.seq_q;
  const std::int64_t row = step / sizes.q_steps() * sizes.seq_q + query;
  float sum = 0;
  if (exists) {
    const std::int64_t piece = row * kLanes + thread % kLanes;
    sum = product_sum(reinterpret_cast<const uint4*>(d_out)[piece],
                      reinterpret_cast<const uint4*>(out)[piece], T{});
  }
#pragma unroll
  for (int lanes = kLanes / 2; lanes > 0; lanes /= 2)
    sum += __shfl_xor_sync(0xffffffff, sum, lanes);
  if (thread % kLanes != 0) return;
  float* const of_step = stats + step * 2 * kStepQ;
  of_step[place] = exists ? base_2_lse(lse[row]) : INFINITY;
  of_step[kStepQ + place] = sum;
}

/// Puts four of a step's scaled sums from the order of dq_place into rows of kPitch elements.
template <class T, int kHeadDim, int kStepQ, int kPitch>
__device__ inline void put_quad(T* rows, int quad, float4 four, float scale) {
  constexpr DqSplit kSplit = dq_split(kHeadDim, kStepQ);
  const float sums[] = {scale * four.x, scale * four.y, scale * four.z, scale * four.w};
#pragma unroll
  for (int i = 0; i < 4; i += 2) {
    const DqPlace place = dq_place(kHeadDim, kStepQ, 4 * quad + i);
    T* const to = rows + place.query * kPitch + place.dim;
    if constexpr (kSplit == DqSplit::queries || kSplit == DqSplit::dims) {
      *reinterpret_cast<std::uint32_t*>(to) = packed(sums[i], sums[i + 1], T{});
    } else {
      to[0] = T(sums[i]);
      to[kPitch] = T(sums[i + 1]);
    }
  }
}

/// Makes dQ = scale * sums, rounded, and puts it from the order of dq_place to row-major; 0 where
/// no task has added. A CTA for every step, the last first: what was added last may still be in L2.
template <class T, int kHeadDim, int kStepQ>
__global__ void __launch_bounds__(kPassThreads)
    convert(Sizes sizes, const float* sums, const std::int32_t* contributions, float scale, T* dq) {
  constexpr int kPitch = kHeadDim + 8;  // 16 bytes more: rows begin in different banks
  constexpr int kQuads = kStepQ * kHeadDim / 4 / kPassThreads;  // of a thread
  __shared__ __align__(16) T rows[kStepQ * kPitch];
  const std::int64_t step = gridDim.x - 1 - blockIdx.x;
  const auto q = static_cast<std::int32_t>(step % sizes.q_steps());
  const bool any = contributions[q / sizes.steps] > 0;
  const auto* const quads = reinterpret_cast<const float4*>(sums + step * kStepQ * kHeadDim);
  float4 four[kQuads];
#pragma unroll
  for (int index = 0; index < kQuads; ++index) {
    const int quad = index * kPassThreads + static_cast<int>(threadIdx.x);
    four[index] = any ? quads[quad] : make_float4(0, 0, 0, 0);
  }
#pragma unroll
  for (int index = 0; index < kQuads; ++index) {
    const int quad = index * kPassThreads + static_cast<int>(threadIdx.x);
    put_quad<T, kHeadDim, kStepQ, kPitch>(rows, quad, four[index], scale);
  }
  __syncthreads();
  constexpr int kPieces = kHeadDim / 8;
  const std::int64_t first = std::int64_t{q} * kStepQ;
  const std::int64_t row = step / sizes.q_steps() * sizes.seq_q + first;
  for (int piece = static_cast<int>(threadIdx.x); piece < kStepQ * kPieces; piece += kPassThreads) {
    const int query = piece / kPieces;
    if (first + query >= sizes.seq_q) break;
    reinterpret_cast<uint4*>(dq)[(row + query) * kPieces + piece % kPieces] =
        *reinterpret_cast<const uint4*>(rows + query * kPitch + piece % kPieces * 8);
  }
}

/// Rounds an array to a 16-bit format.
template <class T>
__global__ void __launch_bounds__(kPassThreads)
    round_to(const float* from, T* to, std::int64_t size) {
  const std::int64_t index = std::int64_t{blockIdx.x} * kPassThreads + threadIdx.x;
  if (index < size) to[index] = T(from[index]);
}

/// Widens an array of a 16-bit format to fp32.
template <class T>
__global__ void __launch_bounds__(kPassThreads) widen(const T* from, float* to, std::int64_t size) {
  const std::int64_t index = std::int64_t{blockIdx.x} * kPassThreads + threadIdx.x;
  if (index < size) to[index] = static_cast<float>(from[index]);
}

}  // namespace stagger::gpu::hopper
