#pragma once

// The arithmetic of the hopper kernel: the backward pass of one step, which is a tile or a part of
// its queries, by two warpgroups, of which each has 64 of the KV tile's 128 keys.
//
//   S^T  = K Q^T     dP^T = V dO^T          rows are keys, so that P^T and dS^T are, as they lie in
//   P^T  = exp(scale S^T - lse)             registers, left operands of the next two:
//   dS^T = P^T (dP^T - D)
//   dV  += P^T dO    dK  += dS^T Q          in registers for a whole chain
//   dQ   = dS K                             needs all 128 keys: dS goes through shared memory
//
// The products of a warpgroup run beside the other's exponentials, as it comes: neither is more
// than two steps ahead, by the buffers of dS.

#include "gpu/hopper/bulk_copy.cuh"
#include "gpu/hopper/dropout.cuh"
#include "gpu/hopper/shape.hpp"
#include "gpu/hopper/wgmma.cuh"

namespace stagger::gpu::hopper {

inline constexpr int kComputeThreads = 2 * kWarpgroup;
inline constexpr int kStages = 2;  ///< Q and dO tiles in shared memory, and dS

/// What is known of a step's queries, loaded with them.
template <int kStepQ>
struct alignas(16) QueryStats {
  float lse[kStepQ];    ///< log2(e) times it
  float delta[kStepQ];  ///< D
};

template <class T, int kHeadDim, int kStepQ>
struct alignas(kSwizzleBytes) TileBuffers {
  /// K and V of the next chain come beside this one's where there is room for them.
  static constexpr int kKStages = kHeadDim == 128 && kStepQ == 80 ? 1 : 2;
  static constexpr int kVStages = kHeadDim == 128 ? 1 : 2;

  T k[kKStages][kTileKv * kHeadDim];
  T v[kVStages][kTileKv * kHeadDim];
  T q[kStages][kStepQ * kHeadDim];
  T d_out[kStages][kStepQ * kHeadDim];
  T ds[kStages][kStepQ * kTileKv];  ///< rows are queries
  float dq[kStepQ * kHeadDim];      ///< in the order of dq_place
};

/// Whether score_place finds every one of the threads' sums.
constexpr bool finds_sums() {
  for (int thread = 0; thread < kComputeThreads; ++thread) {
    for (int index = 0; index < 64; ++index) {
      const int of_warpgroup = thread % kWarpgroup;
      const ScorePlace place =
          score_place(sums_column(of_warpgroup, index),
                      64 * (thread / kWarpgroup) + sums_row(of_warpgroup, index));
      if (place.thread != thread || place.index != index) return false;
    }
  }
  return true;
}
static_assert(finds_sums());

/// Finds which of a thread's two keys a score is of, and its place among the scores of that key.
__host__ __device__ constexpr int key_of_sum(int index) {
  return index % 4 / 2;
}
__host__ __device__ constexpr int place_of_sum(int index) {
  return index / 4 * 2 + index % 2;
}

/// Whether scores_before counts the scores of a key that are before any query, wherever they are.
constexpr bool counts_scores() {
  for (int query = 0; query < 128; ++query) {
    for (int key = 0; key < 16; key += 8) {
      const ScorePlace place = score_place(query, key);
      if (key_of_sum(place.index) != key / 8) return false;
      for (int end = 0; end <= 128; ++end) {
        const bool is_before = place_of_sum(place.index) < scores_before(place.thread, end);
        if (is_before != (query < end)) return false;
      }
    }
  }
  return true;
}
static_assert(counts_scores());

/// Whether dkv_place finds every one of the threads' sums of dK and dV.
constexpr bool finds_dkv(int head_dim) {
  for (int thread = 0; thread < kComputeThreads; ++thread) {
    for (int index = 0; index < head_dim / 2; ++index) {
      const int of_warpgroup = thread % kWarpgroup;
      const DkvPlace place = dkv_place(
          head_dim, ((thread / 32 * head_dim / 8 + index / 4) * 32 + thread % 32) * 4 + index % 4);
      if (place.key != 64 * (thread / kWarpgroup) + sums_row(of_warpgroup, index)) return false;
      if (place.dim != sums_column(of_warpgroup, index)) return false;
    }
  }
  return true;
}
static_assert(finds_dkv(64) && finds_dkv(128));

/// Where a warp's sums of dK and dV are, in global memory.
struct DkvSums {
  float* dk = nullptr;
  float* dv = nullptr;

  /// Those `number` warps behind.
  [[nodiscard]] __device__ DkvSums of_warp(std::int64_t number, int head_dim) const {
    const std::int64_t elements = number * kWarpKeys * head_dim;
    return {dk + elements, dv + elements};
  }
};

/// What comes with a step's Q.
template <int kStepQ>
struct StepQueries {
  QueryStats<kStepQ> stats;
  SeenQueries seen[kTileKv];  ///< by key; of masked tiles in ranges only
};

__device__ inline float exp2_approximately(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}

/// What a compute thread keeps in registers, and what it does with its tile. Functions are called
/// by both warpgroups, in this order.
template <class T, int kHeadDim, int kStepQ>
class Tile {
 public:
  using Tiles = TileBuffers<T, kHeadDim, kStepQ>;
  static constexpr int kDim = kHeadDim;

  __device__ Tile(Tiles& tiles, const StepQueries<kStepQ>* queries, float scale)
      : tiles_(tiles),
        queries_(queries),
        warpgroup_(static_cast<int>(threadIdx.x) / kWarpgroup - 1),
        thread_(static_cast<int>(threadIdx.x) % kWarpgroup),
        scale_log2_(scale * 1.44269504F) {}

  __device__ void begin_chain() {
#pragma unroll
    for (int index = 0; index < kHeadDim / 2; ++index)
      dk_[index] = dv_[index] = 0;
  }

  /// Begins S^T.
  __device__ void begin_scores(int k_stage, int stage) {
    wgmma_fence();
    multiply_keys(s_, tiles_.k[k_stage], tiles_.q[stage]);
    wgmma_commit();
  }

  /// Begins dP^T.
  __device__ void begin_dp(int v_stage, int stage) {
    wgmma_fence();
    multiply_keys(dp_, tiles_.v[v_stage], tiles_.d_out[stage]);
    wgmma_commit();
  }

  /// Returns when S^T is there.
  __device__ void finish_scores() {
    wgmma_wait<1>();
    pin(s_);
  }

  /// Sets S^T = -infinity where the query does not see the key.
  __device__ void hide_unseen(int stage) {
    const SeenQueries* const seen = queries_[stage].seen + 64 * warpgroup_;
    const std::uint32_t of_keys[2] = {seen_scores(seen[sums_row(thread_, 0)]),
                                      seen_scores(seen[sums_row(thread_, 2)])};
#pragma unroll
    for (int index = 0; index < kStepQ / 2; ++index) {
      if ((of_keys[key_of_sum(index)] >> place_of_sum(index) & 1) == 0) s_[index] = -INFINITY;
    }
  }

  /// Likewise by a step's SeenBits, in global memory.
  __device__ void hide_unseen(const std::byte* bits) {
    constexpr int kRest = SeenBits{kStepQ}.rest();
    const int thread = kWarpgroup * warpgroup_ + thread_;
    const std::uint32_t first = reinterpret_cast<const std::uint32_t*>(bits)[thread];
    std::uint32_t rest = 0;
    bits += SeenBits::kFirst;
    if constexpr (kRest == 1) rest = reinterpret_cast<const std::uint8_t*>(bits)[thread];
    if constexpr (kRest == 4) rest = reinterpret_cast<const std::uint32_t*>(bits)[thread];
#pragma unroll
    for (int index = 0; index < kStepQ / 2; ++index) {
      if (((index < 32 ? first : rest) >> index % 32 & 1) == 0) s_[index] = -INFINITY;
    }
  }

  /// Makes P^T of S^T, and dS^T when dP^T is there, less what dropout does not keep.
  template <class Keeps>
  __device__ void probabilities(int stage, const Keeps& keeps) {
    const QueryStats<kStepQ>& stats = queries_[stage].stats;
#pragma unroll
    for (int group = 0; group < kStepQ / 8; ++group) {
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
    for (int group = 0; group < kStepQ / 8; ++group) {
      const float2 delta = pair(stats.delta, group);
#pragma unroll
      for (int i = 0; i < 4; i += 2) {
        const int index = 4 * group + i;
        const float first = s_[index] * keeps.difference(index, dp_[index], delta.x);
        const float second = s_[index + 1] * keeps.difference(index + 1, dp_[index + 1], delta.y);
        p_[group / 2][group % 2 * 2 + i / 2] =
            packed(keeps.weighed(index, s_[index]), keeps.weighed(index + 1, s_[index + 1]), T{});
        ds_[group / 2][group % 2 * 2 + i / 2] = packed(first, second, T{});
      }
    }
  }

  /// Begins dV += P^T dO.
  __device__ void begin_dv(int stage) {
    wgmma_fence();
    add_queries(dv_, p_, tiles_.d_out[stage]);
    wgmma_commit();
  }

  /// Leaves dS for both warpgroups; a barrier comes after it.
  __device__ void share_ds(int stage) {
    // A warpgroup's 64 keys are a panel; of its row, a warp's 16 keys are two pieces of 16 bytes.
    const int lane = thread_ % 32;
    const int query = lane / 16 * 8 + lane % 8;
    const int piece = thread_ / 32 * 2 + lane / 8 % 2;
    const std::uint32_t address = shared_address(tiles_.ds[stage]) +
                                  warpgroup_ * kStepQ * kPanelBytes + query * kPanelBytes +
                                  (piece ^ query % 8) * 16;
#pragma unroll
    for (int step = 0; step < kStepQ / 16; ++step)
      store_transposed(address + step * 16 * kPanelBytes, ds_[step]);
    fence_async_shared();  // of what this thread wrote, for the products that read it
  }

  /// Begins dQ.
  __device__ void begin_dq(int k_stage, int stage) {
    wgmma_fence();
    multiply_dq(tiles_.k[k_stage], tiles_.ds[stage]);
    wgmma_commit();
  }

  /// Begins dK += dS^T Q.
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
    fence_async_shared();
  }

  /// Calls what(four sums, their place) for all sums of dK and dV that this thread has, and makes
  /// them what it returns. `places` are those of this warp's keys, as dkv_place has them.
  template <class What>
  __device__ void each_quad(DkvSums places, const What& what) {
    each_quad(dk_, places.dk, what);
    each_quad(dv_, places.dv, what);
  }

  /// Adds load(place) to all sums of dK and dV; what is loaded of each is asked for before any of
  /// it is waited for.
  template <class Load>
  __device__ void add_loaded(DkvSums places, const Load& load) {
    add_loaded(dk_, places.dk, load);
    add_loaded(dv_, places.dv, load);
  }

  /// Leaves dK and dV of this warp's 16 keys in the places of K and dS, which nobody may be reading
  /// any more, for a bulk copy by kWarpKeys x 64 boxes.
  __device__ void stage_gradients(int k_stage, float scale) {
    static_assert(sizeof(Tiles::ds) >= sizeof(T) * kTileKv * kHeadDim);
    store_sums(shared_address(dk_of_warp(k_stage)), dk_, scale);
    store_sums(shared_address(dv_of_warp()), dv_, 1);
    fence_async_shared();
  }
  [[nodiscard]] __device__ T* dk_of_warp(int k_stage) const {
    return tiles_.k[k_stage] + first_of_warp();
  }
  [[nodiscard]] __device__ T* dv_of_warp() const {
    return tiles_.ds[0] + first_of_warp();
  }
  /// Returns the warp's first key among the tile's.
  [[nodiscard]] __device__ int first_key_of_warp() const {
    return kWarpKeys * (4 * warpgroup_ + thread_ / 32);
  }

 private:
  static constexpr int kDqSums = dq_sums_of_thread(kHeadDim, kStepQ);
  static constexpr int kSteps = kStepQ / 16;
  using Operand = std::uint32_t[kSteps][4];

  template <class What>
  __device__ static void each_quad(float (&sums)[kHeadDim / 2], float* of_warp, const What& what) {
    auto* const quads = reinterpret_cast<float4*>(of_warp) + threadIdx.x % 32;
#pragma unroll
    for (int quad = 0; quad < kHeadDim / 8; ++quad) {
      float* const four = sums + 4 * quad;
      const float4 now = what(make_float4(four[0], four[1], four[2], four[3]), quads + 32 * quad);
      four[0] = now.x;
      four[1] = now.y;
      four[2] = now.z;
      four[3] = now.w;
    }
  }

  template <class Load>
  __device__ static void add_loaded(float (&sums)[kHeadDim / 2], const float* of_warp,
                                    const Load& load) {
    const auto* const quads = reinterpret_cast<const float4*>(of_warp) + threadIdx.x % 32;
    float4 loaded[kHeadDim / 8];
#pragma unroll
    for (int quad = 0; quad < kHeadDim / 8; ++quad)
      loaded[quad] = load(quads + 32 * quad);
#pragma unroll
    for (int quad = 0; quad < kHeadDim / 8; ++quad) {
      sums[4 * quad] += loaded[quad].x;
      sums[4 * quad + 1] += loaded[quad].y;
      sums[4 * quad + 2] += loaded[quad].z;
      sums[4 * quad + 3] += loaded[quad].w;
    }
  }

  /// Begins sums (keys x queries) = left (keys x head_dim) * right (queries x head_dim)^T.
  __device__ void multiply_keys(float (&sums)[kStepQ / 2], const T* left, const T* right) {
    forget(sums);
    const std::uint64_t keys =
        matrix_descriptor(afresh(shared_address(left) + warpgroup_ * 64 * kPanelBytes), 0);
    const std::uint64_t queries = matrix_descriptor(afresh(shared_address(right)), 0);
#pragma unroll
    for (int step = 0; step < kHeadDim / 16; ++step) {
      const int panel = step / 4;
      const int within = step % 4 * 32;
      Wgmma<kStepQ, T>::template shared<Major::depth, Major::depth>(
          sums, advanced(keys, panel * kTileKv * kPanelBytes + within),
          advanced(queries, panel * kStepQ * kPanelBytes + within), step > 0);
    }
  }

  /// Begins sums (keys x head_dim) += left (keys x queries) * right (queries x head_dim).
  __device__ static void add_queries(float (&sums)[kHeadDim / 2], const Operand& left,
                                     const T* right) {
    const std::uint64_t rows =
        matrix_descriptor(afresh(shared_address(right)), kStepQ * kPanelBytes);
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      Wgmma<kHeadDim, T>::template registers<Major::columns>(
          sums, left[step], advanced(rows, step * 16 * kPanelBytes), true);
    }
  }

  /// Begins dQ = dS K, or K^T dS^T; a sum over 128 keys.
  __device__ void multiply_dq(const T* of_k, const T* of_ds) {
    constexpr DqSplit kSplit = dq_split(kHeadDim, kStepQ);
    constexpr bool kTransposed =
        kSplit == DqSplit::rows_of_dims || kSplit == DqSplit::columns_of_dims;
    constexpr int kPanel = kStepQ * kPanelBytes;      // of dS
    constexpr int kKeyPanel = kTileKv * kPanelBytes;  // of K
    constexpr int kColumns = 2 * kDqSums;
    std::uint32_t ds = shared_address(of_ds);
    std::uint32_t k = shared_address(of_k);
    if (kSplit == DqSplit::queries) ds += warpgroup_ * 64 * kPanelBytes;
    if (kSplit == DqSplit::columns_of_dims) ds += warpgroup_ * kColumns * kPanelBytes;
    if (kSplit == DqSplit::dims) {
      k += kColumns == 64 ? warpgroup_ * kKeyPanel : warpgroup_ * 2 * kColumns;
    }
    if (kSplit == DqSplit::rows_of_dims) k += warpgroup_ * kKeyPanel;
    forget(dq_);
    const std::uint64_t queries = matrix_descriptor(afresh(ds), 0);
    const std::uint64_t keys = matrix_descriptor(afresh(k), kKeyPanel);
#pragma unroll
    for (int step = 0; step < kTileKv / 16; ++step) {
      const std::uint64_t of_queries = advanced(queries, step / 4 * kPanel + step % 4 * 32);
      const std::uint64_t of_keys = advanced(keys, step * 16 * kPanelBytes);
      if constexpr (kTransposed) {
        Wgmma<kColumns, T>::template shared<Major::columns, Major::depth>(dq_, of_keys, of_queries,
                                                                          step > 0);
      } else {
        Wgmma<kColumns, T>::template shared<Major::depth, Major::columns>(dq_, of_queries, of_keys,
                                                                          step > 0);
      }
    }
  }

  /// Tells which of this thread's scores of a key are of queries that see it, a bit each.
  [[nodiscard]] __device__ std::uint32_t seen_scores(SeenQueries queries) const {
    const auto ones = [](int count) { return __funnelshift_lc(~0U, 0, count); };  // up to 32
    return ones(scores_before(thread_, queries.end)) & ~ones(scores_before(thread_, queries.begin));
  }

  /// Counts the elements before this warp's keys, in a tile where each warp's are together.
  [[nodiscard]] __device__ int first_of_warp() const {
    return first_key_of_warp() * kHeadDim;
  }

  /// Stores the sums of this warp's keys, scaled and rounded, in panels as wgmma.cuh says.
  __device__ static void store_sums(std::uint32_t to, const float (&sums)[kHeadDim / 2],
                                    float scale) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int row = lane % 16;
#pragma unroll
    for (int step = 0; step < kHeadDim / 16; ++step) {  // 16 columns
      std::uint32_t pairs[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int index = 8 * step + 2 * i;
        pairs[i] = packed(scale * sums[index], scale * sums[index + 1], T{});
      }
      const int piece = step % 4 * 2 + lane / 16;
      store_matrices(
          to + step / 4 * kWarpKeys * kPanelBytes + row * kPanelBytes + (piece ^ row % 8) * 16,
          pairs);
    }
  }

  /// Reads the values of the two queries that this thread has in a group of eight.
  __device__ float2 pair(const float* of_queries, int group) const {
    return *reinterpret_cast<const float2*>(of_queries + 8 * group + thread_ % 4 * 2);
  }

  Tiles& tiles_;
  const StepQueries<kStepQ>* queries_;  ///< by stage
  int warpgroup_;
  int thread_;
  float scale_log2_;
  float dk_[kHeadDim / 2];
  float dv_[kHeadDim / 2];
  float s_[kStepQ / 2];
  float dp_[kStepQ / 2];
  float dq_[kDqSums];
  Operand p_;
  Operand ds_;
};

}  // namespace stagger::gpu::hopper
