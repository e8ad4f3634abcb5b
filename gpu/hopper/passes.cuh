#pragma once

// What the hopper kernel needs before and after it: D and lse as it reads them, dQ as others do, dK
// and dV where no task writes them or several chains have parts of them. All are bound by memory.

#include "gpu/cuda/semaphore.cuh"
#include "gpu/cuda/table.cuh"
#include "gpu/hopper/call.hpp"
#include "gpu/hopper/divisor.hpp"
#include "gpu/hopper/shape.hpp"
#include "gpu/hopper/wgmma.cuh"
#include "gpu/numerics/lse.hpp"

#include <cstdint>

namespace stagger::gpu::hopper {

inline constexpr int kPassThreads = 256;

/// Rows of a tensor, by strides in elements.
template <class T>
struct Rows {
  T* data = nullptr;
  std::int64_t batch = 0;
  std::int64_t row = 0;
  std::int64_t head = 0;

  Rows() = default;
  explicit Rows(const Tensor& tensor)
      : data(static_cast<T*>(tensor.data)),
        batch(tensor.batch),
        row(tensor.row),
        head(tensor.head) {}

  [[nodiscard]] __device__ T* of(std::int32_t entry, std::int32_t which,
                                 std::int64_t number) const {
    return data + entry * batch + which * head + number * row;
  }
};

/// Finds the batch entry of a head among all, and its head there.
struct BatchHead {
  __device__ BatchHead(Divisor heads, std::int32_t all)
      : batch(heads.quotient(all)), head(all - batch * heads.value()) {}

  std::int32_t batch;
  std::int32_t head;
};

/// A number of 16 bytes in eight places.
template <class T>
__device__ inline uint4 eight_of(float value) {
  const std::uint32_t two = packed(value, value, T{});
  return make_uint4(two, two, two, two);
}

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
/// sees nothing. Clears the semaphores and flags of a run. Eight elements a thread, a thread for
/// every eighth element of the padded queries.
template <class T, int kHeadDim, int kStepQ>
__global__ void __launch_bounds__(kPassThreads)
    preprocess(Sizes sizes, Divisor heads, cuda::DeviceRun run, Rows<const T> d_out,
               Rows<const T> out, Rows<const float> lse, float* stats) {
  constexpr int kLanes = kHeadDim / 8;  // of a row
  const std::int64_t thread = std::int64_t{blockIdx.x} * kPassThreads + threadIdx.x;
  if (thread < sizes.all_steps()) run.locks[thread] = 0;
  if (thread == 0) *run.lanes_taken = *run.stop = 0;
  const auto step = static_cast<std::uint32_t>(thread / kLanes / kStepQ);
  if (step >= sizes.all_steps()) return;
  const auto place = static_cast<int>(thread / kLanes % kStepQ);
  const auto steps_of_head = static_cast<std::uint32_t>(sizes.q_steps());
  const auto all_head = static_cast<std::int32_t>(step / steps_of_head);
  const std::int64_t query = std::int64_t{step - all_head * steps_of_head} * kStepQ + place;
  const bool exists = query < sizes.seq_q;
  const BatchHead at(heads, all_head);
  float sum = 0;
  if (exists) {
    const std::int64_t piece = thread % kLanes;
    sum = product_sum(reinterpret_cast<const uint4*>(d_out.of(at.batch, at.head, query))[piece],
                      reinterpret_cast<const uint4*>(out.of(at.batch, at.head, query))[piece], T{});
  }
#pragma unroll
  for (int lanes = kLanes / 2; lanes > 0; lanes /= 2)
    sum += __shfl_xor_sync(0xffffffff, sum, lanes);
  if (thread % kLanes != 0) return;
  float* const of_step = stats + std::int64_t{step} * 2 * kStepQ;
  of_step[place] = exists ? base_2_lse(*lse.of(at.batch, at.head, query)) : INFINITY;
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

/// dK and dV where no task writes them: of KV tiles that nobody sees.
template <class T>
struct Unseen {
  Rows<T> dk;
  Rows<T> dv;
  const std::uint8_t* seen = nullptr;  ///< by KV tile
  Divisor heads;                       ///< of a batch entry: of K
  bool any = false;                    ///< whether there is such a tile
};

/// Fills dK and dV of KV tiles that nobody sees with 0 or, if the run has `stopped`, of all of them
/// with NaN; by all CTAs of the grid.
template <class T, int kHeadDim>
__device__ inline void fill_gradients(const Sizes& sizes, const Unseen<T>& unseen, bool stopped) {
  constexpr int kPieces = kHeadDim / 8;
  const std::int64_t tiles = std::int64_t{sizes.all_heads_kv()} * sizes.kv_tiles;
  const uint4 value = eight_of<T>(stopped ? NAN : 0.0F);
  for (std::int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const auto kv = static_cast<std::int32_t>(tile % sizes.kv_tiles);
    if (!stopped && unseen.seen[kv] != 0) continue;
    const BatchHead at(unseen.heads, static_cast<std::int32_t>(tile / sizes.kv_tiles));
    for (int piece = static_cast<int>(threadIdx.x); piece < kTileKv * kPieces;
         piece += kPassThreads) {
      const std::int64_t key = std::int64_t{kv} * kTileKv + piece / kPieces;
      if (key >= sizes.seq_kv) break;
      for (const Rows<T>* rows : {&unseen.dk, &unseen.dv})
        reinterpret_cast<uint4*>(rows->of(at.batch, at.head, key))[piece % kPieces] = value;
    }
  }
}

/// Tells the host that a call was stopped: the first since the host has cleared the note.
__device__ inline void tell(StopNote* note, const StopNote& words) {
  if (atomicCAS_system(&note->code, 0U, kStopped) == 0) {
    volatile StopNote* const to = note;
    to->device = words.device;
    to->call_id = words.call_id;
    to->order_digest = words.order_digest;
    to->stopped_ns = static_cast<std::uint64_t>(cuda::global_time());
  }
  atomicAdd_system(&note->count, 1U);
  __threadfence_system();
}

/// What a stopped call leaves beside NaN: where it says so, if anywhere, and in which words.
struct StopWords {
  StopNote* note = nullptr;
  StopNote words = {};
};

/// Makes dQ = scale * sums, rounded, and puts it from the order of dq_place to rows; 0 where no
/// task has added. dK and dV of tiles without a task are `unseen`; where parts are added, they are
/// sum_parts's, and `unseen` has none. Of a run that was stopped all is NaN. A CTA for every step,
/// the last first: what was added last may still be in L2.
template <class T, int kHeadDim, int kStepQ>
__global__ void __launch_bounds__(kPassThreads)
    convert(Sizes sizes, Divisor heads, const float* sums, const std::int32_t* contributions,
            float scale, Rows<T> dq, const __grid_constant__ Unseen<T> unseen,
            const std::int32_t* stop, const __grid_constant__ StopWords stopped_words) {
  constexpr int kPitch = kHeadDim + 8;  // 16 bytes more: rows begin in different banks
  constexpr int kQuads = kStepQ * kHeadDim / 4 / kPassThreads;  // of a thread
  __shared__ __align__(16) T rows[kStepQ * kPitch];
  const std::uint32_t step = gridDim.x - 1 - blockIdx.x;
  const auto steps_of_head = static_cast<std::uint32_t>(sizes.q_steps());
  const auto all_head = static_cast<std::int32_t>(step / steps_of_head);
  const auto q = static_cast<std::int32_t>(step - all_head * steps_of_head);
  const bool any = contributions[q / sizes.steps] > 0;
  const bool stopped = *stop != 0;
  const auto* const quads =
      reinterpret_cast<const float4*>(sums + std::int64_t{step} * kStepQ * kHeadDim);
  float4 four[kQuads];
#pragma unroll
  for (int index = 0; index < kQuads; ++index) {
    const int quad = index * kPassThreads + static_cast<int>(threadIdx.x);
    four[index] = any ? quads[quad] : make_float4(0, 0, 0, 0);
  }
  const float factor = stopped ? NAN : scale;
#pragma unroll
  for (int index = 0; index < kQuads; ++index) {
    const int quad = index * kPassThreads + static_cast<int>(threadIdx.x);
    put_quad<T, kHeadDim, kStepQ, kPitch>(rows, quad, four[index], factor);
  }
  __syncthreads();
  constexpr int kPieces = kHeadDim / 8;
  const std::int64_t first = std::int64_t{q} * kStepQ;
  const BatchHead at(heads, all_head);
  for (int piece = static_cast<int>(threadIdx.x); piece < kStepQ * kPieces; piece += kPassThreads) {
    const int query = piece / kPieces;
    if (first + query >= sizes.seq_q) break;
    reinterpret_cast<uint4*>(dq.of(at.batch, at.head, first + query))[piece % kPieces] =
        *reinterpret_cast<const uint4*>(rows + query * kPitch + piece % kPieces * 8);
  }
  if (unseen.dk.data != nullptr && (unseen.any || stopped)) {
    fill_gradients<T, kHeadDim>(sizes, unseen, stopped);
  }
  if (stopped && stopped_words.note != nullptr && blockIdx.x == 0 && threadIdx.x == 0) {
    tell(stopped_words.note, stopped_words.words);
  }
}

/// Adds eight elements to eight sums.
__device__ inline void add_eight(float (&sums)[8], uint4 eight, __nv_bfloat16) {
  const auto* const pairs = reinterpret_cast<const __nv_bfloat162*>(&eight);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 pair = __bfloat1622float2(pairs[i]);
    sums[2 * i] += pair.x;
    sums[2 * i + 1] += pair.y;
  }
}
__device__ inline void add_eight(float (&sums)[8], uint4 eight, __half) {
  const auto* const pairs = reinterpret_cast<const __half2*>(&eight);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 pair = __half22float2(pairs[i]);
    sums[2 * i] += pair.x;
    sums[2 * i + 1] += pair.y;
  }
}

/// Makes dK (blockIdx.y 0) and dV (1) of KV heads that have several parts: those are added in fp32,
/// upwards, and rounded once; 0 where nobody sees the keys, NaN if the run was stopped. `dk` and
/// `dv` are by (batch, part, key, dim). Eight elements a thread.
template <class T, int kHeadDim>
__global__ void __launch_bounds__(kPassThreads)
    sum_parts(Sizes sizes, const T* dk, const T* dv, const __grid_constant__ Unseen<T> to,
              const std::int32_t* stop) {
  constexpr int kPieces = kHeadDim / 8;
  const std::int64_t thread = std::int64_t{blockIdx.x} * kPassThreads + threadIdx.x;
  const std::int64_t row = thread / kPieces;
  const std::int64_t piece = thread % kPieces;
  if (row >= sizes.all_heads_kv() * sizes.seq_kv) return;
  const auto kv_head = static_cast<std::int32_t>(row / sizes.seq_kv);
  const std::int64_t key = row % sizes.seq_kv;
  const BatchHead at(to.heads, kv_head);
  uint4 result;
  if (*stop != 0) {
    result = eight_of<T>(NAN);
  } else if (to.seen[key / kTileKv] == 0) {
    result = eight_of<T>(0);
  } else {
    float sums[8] = {};
    // The parts of a KV head are neighbours, in a batch entry and so among all.
    const std::int64_t of_part = sizes.seq_kv * kPieces;
    const std::int64_t first = std::int64_t{kv_head} * sizes.group_parts() * of_part;
    const auto* from =
        reinterpret_cast<const uint4*>(blockIdx.y == 0 ? dk : dv) + first + key * kPieces + piece;
    for (std::int32_t part = 0; part < sizes.group_parts(); ++part, from += of_part)
      add_eight(sums, *from, T{});
    result = make_uint4(packed(sums[0], sums[1], T{}), packed(sums[2], sums[3], T{}),
                        packed(sums[4], sums[5], T{}), packed(sums[6], sums[7], T{}));
  }
  const Rows<T>& rows = blockIdx.y == 0 ? to.dk : to.dv;
  reinterpret_cast<uint4*>(rows.of(at.batch, at.head, key))[piece] = result;
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
