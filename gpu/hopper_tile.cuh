#pragma once

// The arithmetic of the hopper kernel: the backward pass of one tile by two warpgroups, of which
// each has 64 of the KV tile's 128 keys.
//
//   S^T  = K Q^T     dP^T = V dO^T          rows are keys, so that P^T and dS^T are, as they lie in
//   P^T  = exp(scale S^T - lse)             registers, left operands of the next two:
//   dS^T = P^T (dP^T - D)
//   dV  += P^T dO    dK  += dS^T Q          in registers for a whole chain
//   dQ   = dS K                             needs all 128 keys: dS goes through shared memory
//
// The products of a warpgroup run beside the other's exponentials; nothing else is interleaved.

#include "gpu/bulk_copy.cuh"
#include "gpu/hopper_shape.hpp"
#include "gpu/wgmma.cuh"

namespace stagger::gpu {

inline constexpr int kComputeThreads = 2 * kWarpgroup;
inline constexpr int kStages = 2;  ///< Q and dO tiles in shared memory, and dS

/// What is known of a Q tile's queries, loaded with it.
template <int kTileQ>
struct alignas(16) QueryStats {
  float lse[kTileQ];    ///< log2(e) times it
  float delta[kTileQ];  ///< D
};

/// Keys of its KV tile that a query sees, [begin, end).
struct HopperKeys {
  std::int16_t begin = 0;
  std::int16_t end = 0;
};

template <class T, int kHeadDim, int kTileQ>
struct alignas(kSwizzleBytes) HopperTiles {
  T k[kHopperTileKv * kHeadDim];
  T v[kHopperTileKv * kHeadDim];
  T q[kStages][kTileQ * kHeadDim];
  T d_out[kStages][kTileQ * kHeadDim];
  T ds[kStages][kTileQ * kHopperTileKv];  ///< rows are queries
  float dq[kTileQ * kHeadDim];            ///< in the order of dq_place
  QueryStats<kTileQ> stats[kStages];
  HopperKeys keys[kStages][kTileQ];
};

__device__ inline float exp2_approximately(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}

/// What a compute thread keeps in registers, and what it does with its tile. Functions are called
/// by both warpgroups, in this order.
template <class T, int kHeadDim, int kTileQ>
class HopperTile {
 public:
  static constexpr HopperShape kShape{kHeadDim, kTileQ};
  using Tiles = HopperTiles<T, kHeadDim, kTileQ>;

  __device__ HopperTile(Tiles& tiles, float scale)
      : tiles_(tiles),
        warpgroup_(static_cast<int>(threadIdx.x) / kWarpgroup - 1),
        thread_(static_cast<int>(threadIdx.x) % kWarpgroup),
        scale_log2_(scale * 1.44269504F) {}

  __device__ void begin_chain() {
#pragma unroll
    for (int index = 0; index < kHeadDim / 2; ++index)
      dk_[index] = dv_[index] = 0;
  }

  /// S^T begins.
  __device__ void begin_scores(int stage) {
    wgmma_fence();
    multiply_keys(s_, tiles_.k, tiles_.q[stage]);
    wgmma_commit();
  }

  /// dP^T begins; returns when S^T is there.
  __device__ void begin_dp(int stage) {
    wgmma_fence();
    multiply_keys(dp_, tiles_.v, tiles_.d_out[stage]);
    wgmma_commit();
    wgmma_wait<1>();
    pin(s_);
  }

  /// P^T from S^T, and dS^T when dP^T is there.
  __device__ void probabilities(int stage, bool partial) {
    if (partial) hide_unseen(tiles_.keys[stage]);
    const QueryStats<kTileQ>& stats = tiles_.stats[stage];
#pragma unroll
    for (int group = 0; group < kTileQ / 8; ++group) {
      const float2 lse = pair(stats.lse, group);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float& s = s_[4 * group + i];
        s = exp2_approximately(__fmaf_rn(s, scale_log2_, i % 2 == 0 ? -lse.x : -lse.y));
      }
    }
    wgmma_wait<0>();
    pin(dp_);
#pragma unroll
    for (int group = 0; group < kTileQ / 8; ++group) {
      const float2 delta = pair(stats.delta, group);
#pragma unroll
      for (int i = 0; i < 4; i += 2) {
        const int index = 4 * group + i;
        const float first = s_[index] * (dp_[index] - delta.x);
        const float second = s_[index + 1] * (dp_[index + 1] - delta.y);
        p_[group / 2][group % 2 * 2 + i / 2] = packed(s_[index], s_[index + 1], T{});
        ds_[group / 2][group % 2 * 2 + i / 2] = packed(first, second, T{});
      }
    }
  }

  /// dV += P^T dO begins.
  __device__ void begin_dv(int stage) {
    wgmma_fence();
    add_queries(dv_, p_, tiles_.d_out[stage]);
    wgmma_commit();
  }

  /// dS for both warpgroups; a barrier comes after it.
  __device__ void share_ds(int stage) {
    // A warpgroup's 64 keys are a panel; of its row, a warp's 16 keys are two pieces of 16 bytes.
    const int lane = thread_ % 32;
    const int query = lane / 16 * 8 + lane % 8;
    const int piece = thread_ / 32 * 2 + lane / 8 % 2;
    const std::uint32_t address = shared_address(tiles_.ds[stage]) +
                                  warpgroup_ * kTileQ * kPanelBytes + query * kPanelBytes +
                                  (piece ^ query % 8) * 16;
#pragma unroll
    for (int step = 0; step < kTileQ / 16; ++step)
      store_transposed(address + step * 16 * kPanelBytes, ds_[step]);
    fence_async();  // of what this thread wrote, for the products that read it
  }

  /// dQ begins.
  __device__ void begin_dq(int stage) {
    wgmma_fence();
    multiply_dq(stage);
    wgmma_commit();
  }

  /// dK += dS^T Q begins.
  __device__ void begin_dk(int stage) {
    add_queries(dk_, ds_, tiles_.q[stage]);
    wgmma_commit();
  }

  /// Returns when dQ is there, after which kAfter products have begun.
  template <int kAfter>
  __device__ void finish_dq() {
    wgmma_wait<kAfter>();
    pin(dq_);
  }

  /// Returns when dK and dV are there.
  __device__ void finish_dk() {
    wgmma_wait<0>();
    pin(dv_);
    pin(dk_);
  }

  /// Leaves dQ where the writer finds it.
  __device__ void hand_over_dq() {
    constexpr int kQuads = kDqSums / 4;
    auto* const to = reinterpret_cast<float4*>(tiles_.dq) + warpgroup_ * kQuads * kWarpgroup;
#pragma unroll
    for (int quad = 0; quad < kQuads; ++quad) {
      to[quad * kWarpgroup + thread_] =
          make_float4(dq_[4 * quad], dq_[4 * quad + 1], dq_[4 * quad + 2], dq_[4 * quad + 3]);
    }
    fence_async();
  }

  /// Writes dK and dV of this warpgroup's keys, of which `keys` exist.
  __device__ void end_chain(T* dk, T* dv, std::int64_t keys, float scale) const {
#pragma unroll
    for (int index = 0; index < kHeadDim / 2; index += 2) {
      const std::int64_t key = 64 * warpgroup_ + sums_row(thread_, index);
      if (key >= keys) continue;
      const std::int64_t place = key * kHeadDim + sums_column(thread_, index);
      *reinterpret_cast<std::uint32_t*>(dk + place) =
          packed(scale * dk_[index], scale * dk_[index + 1], T{});
      *reinterpret_cast<std::uint32_t*>(dv + place) = packed(dv_[index], dv_[index + 1], T{});
    }
  }

 private:
  static constexpr int kDqSums = dq_sums_of_thread(kShape);
  static constexpr int kSteps = kTileQ / 16;
  using Operand = std::uint32_t[kSteps][4];

  /// sums (keys x queries) = left (keys x head_dim) * right (queries x head_dim)^T.
  __device__ void multiply_keys(float (&sums)[kTileQ / 2], const T* left, const T* right) {
    forget(sums);
    const std::uint64_t keys =
        matrix_descriptor(shared_address(left) + warpgroup_ * 64 * kPanelBytes, 0);
    const std::uint64_t queries = matrix_descriptor(shared_address(right), 0);
#pragma unroll
    for (int step = 0; step < kHeadDim / 16; ++step) {
      const int panel = step / 4;
      const int within = step % 4 * 32;
      Wgmma<kTileQ, T>::template shared<Major::depth, Major::depth>(
          sums, advanced(keys, panel * kHopperTileKv * kPanelBytes + within),
          advanced(queries, panel * kTileQ * kPanelBytes + within), step > 0);
    }
  }

  /// sums (keys x head_dim) += left (keys x queries) * right (queries x head_dim).
  __device__ static void add_queries(float (&sums)[kHeadDim / 2], const Operand& left,
                                     const T* right) {
    const std::uint64_t rows = matrix_descriptor(shared_address(right), kTileQ * kPanelBytes);
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      Wgmma<kHeadDim, T>::template registers<Major::columns>(
          sums, left[step], advanced(rows, step * 16 * kPanelBytes), true);
    }
  }

  /// dQ = dS K, or K^T dS^T; a sum over 128 keys.
  __device__ void multiply_dq(int stage) {
    constexpr DqSplit kSplit = dq_split(kShape);
    constexpr int kPanel = kTileQ * kPanelBytes;            // of dS
    constexpr int kKeyPanel = kHopperTileKv * kPanelBytes;  // of K
    constexpr int kColumns = 2 * kDqSums;
    std::uint32_t ds = shared_address(tiles_.ds[stage]);
    std::uint32_t k = shared_address(tiles_.k);
    if (kSplit == DqSplit::queries) ds += warpgroup_ * 64 * kPanelBytes;
    if (kSplit == DqSplit::dims) {
      k += kColumns == 64 ? warpgroup_ * kKeyPanel : warpgroup_ * 2 * kColumns;
    }
    if (kSplit == DqSplit::transposed) k += warpgroup_ * kKeyPanel;
    forget(dq_);
    const std::uint64_t queries = matrix_descriptor(ds, 0);
    const std::uint64_t keys = matrix_descriptor(k, kKeyPanel);
#pragma unroll
    for (int step = 0; step < kHopperTileKv / 16; ++step) {
      const std::uint64_t of_queries = advanced(queries, step / 4 * kPanel + step % 4 * 32);
      const std::uint64_t of_keys = advanced(keys, step * 16 * kPanelBytes);
      if constexpr (kSplit == DqSplit::transposed) {
        Wgmma<kColumns, T>::template shared<Major::columns, Major::depth>(dq_, of_keys, of_queries,
                                                                          step > 0);
      } else {
        Wgmma<kColumns, T>::template shared<Major::depth, Major::columns>(dq_, of_queries, of_keys,
                                                                          step > 0);
      }
    }
  }

  /// S^T = -infinity where the query does not see the key.
  __device__ void hide_unseen(const HopperKeys* keys) {
#pragma unroll
    for (int index = 0; index < kTileQ / 2; ++index) {
      const HopperKeys seen = keys[sums_column(thread_, index)];
      const int key = 64 * warpgroup_ + sums_row(thread_, index);
      if (key < seen.begin || key >= seen.end) s_[index] = -INFINITY;
    }
  }

  /// Of the two queries that this thread has in a group of eight.
  __device__ float2 pair(const float* of_queries, int group) const {
    return *reinterpret_cast<const float2*>(of_queries + 8 * group + thread_ % 4 * 2);
  }

  Tiles& tiles_;
  int warpgroup_;
  int thread_;
  float scale_log2_;
  float dk_[kHeadDim / 2];
  float dv_[kHeadDim / 2];
  float s_[kTileQ / 2];
  float dp_[kTileQ / 2];
  float dq_[kDqSums];
  Operand p_;
  Operand ds_;
};

}  // namespace stagger::gpu
