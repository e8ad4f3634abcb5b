#pragma once

// Attention's forward pass in bf16, head_dim 128, full mask, with dropout in three ways: none, bits
// that are made where they are needed, and bits that are read. A CTA has 128 queries of a head.
//
//   load       one thread: Q, then K and V of the next 128 keys as places become free
//   compute    two warpgroups, 64 queries each: S = Q K^T, the softmax as far as it is known, and
//              O += P V. The one's products are under way while the other has its softmax.
//
// Of 128 keys and its two queries a thread needs 8 words of bits, like the other three lanes that
// have these queries: it reads them as two 16-byte pieces, a step ahead, or makes two of them and
// gets the others by shuffles.

#include "gpu/cuda/semaphore.cuh"
#include "gpu/hopper/bulk_copy.cuh"
#include "gpu/hopper/wgmma.cuh"
#include "gpu/overlap/overlap.hpp"
#include "gpu/overlap/reference.hpp"

#include <cstdint>

namespace stagger::gpu::overlap {

inline constexpr int kQueries = 128;  ///< of a CTA
inline constexpr int kKeys = 128;     ///< of a step
inline constexpr int kKeyStages = 2;
inline constexpr int kComputeGroups = 2;
inline constexpr int kAttentionThreads = (1 + kComputeGroups) * hopper::kWarpgroup;
inline constexpr std::uint32_t kTileBytes = kKeys * kAttentionDim * 2;

/// What attention is told. Tensors are (batch, head, token, dim), one behind the other.
struct AttentionWork {
  CUtensorMap q;  ///< by boxes of 128 x 64, k and v too
  CUtensorMap k;
  CUtensorMap v;
  __nv_bfloat16* out = nullptr;
  DropoutRule rule = {};
  const std::uint32_t* words = nullptr;  ///< of DropoutLayout
  std::int32_t seq = 0;
  std::int32_t heads = 0;
  float log2_scale = 0;  ///< of scores, for powers of two
  float keep_scale = 1;  ///< of what is kept
  std::int64_t patience_ns = 0;
  std::int32_t* given_up = nullptr;
};

struct AttentionShared {
  struct alignas(hopper::kSwizzleBytes) Tile {
    __nv_bfloat16 panels[kAttentionDim / hopper::kPanelColumns][kKeys * hopper::kPanelColumns];
  };

  Tile q;
  Tile k[kKeyStages];
  Tile v[kKeyStages];
  hopper::Mbarrier q_full;
  hopper::Mbarrier k_full[kKeyStages];
  hopper::Mbarrier k_empty[kKeyStages];
  hopper::Mbarrier v_full[kKeyStages];
  hopper::Mbarrier v_empty[kKeyStages];

  __device__ void init() {
    constexpr std::uint32_t kWarps = kComputeGroups * hopper::kWarpgroup / 32;
    q_full.init(1);
    for (int stage = 0; stage < kKeyStages; ++stage) {
      k_full[stage].init(1);
      k_empty[stage].init(kWarps);
      v_full[stage].init(1);
      v_empty[stage].init(kWarps);
    }
    hopper::fence_mbarrier_init();
  }
};

/// A CTA's attention.
class AttentionTile {
 public:
  __device__ AttentionTile(const AttentionWork& work, AttentionShared& shared)
      : work_(work),
        shared_(shared),
        steps_(work.seq / kKeys),
        first_row_(static_cast<std::int32_t>(blockIdx.y) * work.seq),
        deadline_(cuda::global_time() + work.patience_ns) {}

  /// The loading thread.
  __device__ void load() {
    load_tile(shared_.q, &work_.q, first_row_ + static_cast<std::int32_t>(blockIdx.x) * kQueries,
              shared_.q_full);
    for (std::int32_t step = 0; step < steps_; ++step) {
      const auto use = static_cast<std::uint32_t>(step);
      const std::uint32_t stage = hopper::buffer_of<kKeyStages>(use);
      const std::uint32_t parity = hopper::parity_of<kKeyStages>(use) ^ 1;
      wait(shared_.k_empty[stage], parity);
      load_tile(shared_.k[stage], &work_.k, first_row_ + step * kKeys, shared_.k_full[stage]);
      wait(shared_.v_empty[stage], parity);
      load_tile(shared_.v[stage], &work_.v, first_row_ + step * kKeys, shared_.v_full[stage]);
    }
  }

  /// A warpgroup that computes; `part` is which.
  template <Dropping kDropping, int kBits, int kRounds>
  __device__ void compute(int part) {
    float scores[kKeys / 2];
    float out[kAttentionDim / 2] = {};
    std::uint32_t weights[kKeys / 16][4];
    float most[2] = {-INFINITY, -INFINITY};
    float sum[2] = {0, 0};
    std::uint32_t words[2][4] = {};
    place(part);
    if constexpr (kDropping == Dropping::reads) read_words(0, words);
    wait(shared_.q_full, 0);
    for (std::int32_t step = 0; step < steps_; ++step) {
      const auto use = static_cast<std::uint32_t>(step);
      const std::uint32_t stage = hopper::buffer_of<kKeyStages>(use);
      const std::uint32_t parity = hopper::parity_of<kKeyStages>(use);
      wait(shared_.k_full[stage], parity);
      begin_scores(part, stage, scores);
      hopper::wgmma_wait<0>();
      hopper::pin(scores);
      leave(shared_.k_empty[stage]);
      std::uint32_t kept[2][4];
      if constexpr (kDropping == Dropping::makes) make_words<kBits, kRounds>(step, kept);
      if constexpr (kDropping == Dropping::reads) {
        take_words(words, kept);
        read_words(step + 1 < steps_ ? step + 1 : step, words);
      }
      soften(scores, out, most, sum);
      pack<kDropping>(scores, kept, weights);
      wait(shared_.v_full[stage], parity);
      begin_out(stage, weights, out);
      hopper::wgmma_wait<0>();
      hopper::pin(out);
      leave(shared_.v_empty[stage]);
    }
    store(out, sum);
  }

 private:
  __device__ void wait(hopper::Mbarrier& barrier, std::uint32_t parity) {
    while (!barrier.has_ended(parity)) {
      if (cuda::global_time() < deadline_) continue;
      *work_.given_up = 1;
      return;
    }
  }
  __device__ static void leave(hopper::Mbarrier& barrier) {
    __syncwarp();
    if (threadIdx.x % 32 == 0) barrier.arrive();
  }

  __device__ static void load_tile(AttentionShared::Tile& to, const CUtensorMap* map,
                                   std::int32_t row, hopper::Mbarrier& full) {
    full.arrive_expecting(kTileBytes);
    for (int panel = 0; panel < kAttentionDim / hopper::kPanelColumns; ++panel)
      hopper::load_box(to.panels[panel], map, panel * hopper::kPanelColumns, {row, 0, 0}, full);
  }

  /// Finds this thread's first query; its second is 8 further on.
  __device__ void place(int part) {
    const auto thread = static_cast<int>(threadIdx.x % hopper::kWarpgroup);
    query_ =
        static_cast<std::int32_t>(blockIdx.x) * kQueries + part * 64 + hopper::sums_row(thread, 0);
  }
  /// Its first column of each group of eight.
  __device__ static int lane_column() { return static_cast<int>(threadIdx.x % 4) * 2; }

  __device__ void begin_scores(int part, std::uint32_t stage, float (&scores)[kKeys / 2]) {
    const std::uint64_t queries =
        hopper::matrix_descriptor(hopper::afresh(hopper::shared_address(shared_.q.panels[0])) +
                                      part * 64 * hopper::kPanelBytes,
                                  0);
    const std::uint64_t keys = hopper::matrix_descriptor(
        hopper::afresh(hopper::shared_address(shared_.k[stage].panels[0])), 0);
    hopper::wgmma_fence();
#pragma unroll
    for (int depth = 0; depth < kAttentionDim / 16; ++depth) {
      const std::uint32_t bytes = depth / 4 * kKeys * hopper::kPanelBytes + depth % 4 * 32;
      hopper::Wgmma<kKeys, __nv_bfloat16>::shared<hopper::Major::depth, hopper::Major::depth>(
          scores, hopper::advanced(queries, bytes), hopper::advanced(keys, bytes), depth > 0);
    }
    hopper::wgmma_commit();
  }

  __device__ void begin_out(std::uint32_t stage, const std::uint32_t (&weights)[kKeys / 16][4],
                            float (&out)[kAttentionDim / 2]) {
    const std::uint64_t values = hopper::matrix_descriptor(
        hopper::afresh(hopper::shared_address(shared_.v[stage].panels[0])),
        kKeys * hopper::kPanelBytes);
    hopper::pin(out);
    hopper::wgmma_fence();
#pragma unroll
    for (int depth = 0; depth < kKeys / 16; ++depth) {
      hopper::Wgmma<kAttentionDim, __nv_bfloat16>::registers<hopper::Major::columns>(
          out, weights[depth], hopper::advanced(values, depth * 16 * hopper::kPanelBytes), true);
    }
    hopper::wgmma_commit();
  }

  __device__ static float power_of_2(float x) {
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
    return power;
  }
  /// The largest of the four lanes that have a row.
  __device__ static float of_row(float value) {
    value = fmaxf(value, __shfl_xor_sync(0xffffffff, value, 1));
    return fmaxf(value, __shfl_xor_sync(0xffffffff, value, 2));
  }

  /// Turns scores into powers by the largest so far, and what there is of O and of the powers' sum
  /// likewise.
  __device__ void soften(float (&scores)[kKeys / 2], float (&out)[kAttentionDim / 2],
                         float (&most)[2], float (&sum)[2]) {
    float rescale[2];
    float shift[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float largest = most[half];
#pragma unroll
      for (int index = 0; index < kKeys / 2; ++index) {
        if (index / 2 % 2 == half) largest = fmaxf(largest, scores[index]);
      }
      largest = of_row(largest);
      rescale[half] = power_of_2((most[half] - largest) * work_.log2_scale);
      shift[half] = -largest * work_.log2_scale;
      most[half] = largest;
      sum[half] *= rescale[half];
    }
#pragma unroll
    for (int index = 0; index < kKeys / 2; ++index) {
      const int half = index / 2 % 2;
      scores[index] = power_of_2(__fmaf_rn(scores[index], work_.log2_scale, shift[half]));
      sum[half] += scores[index];
    }
#pragma unroll
    for (int index = 0; index < kAttentionDim / 2; ++index)
      out[index] *= rescale[index / 2 % 2];
  }

  [[nodiscard]] __device__ DropoutRow row(int half) const {
    const auto batch = static_cast<std::int32_t>(blockIdx.y) / work_.heads;
    return {static_cast<std::uint32_t>(batch),
            static_cast<std::uint32_t>(static_cast<std::int32_t>(blockIdx.y) - batch * work_.heads),
            static_cast<std::uint32_t>(query_ + half * 8)};
  }

  __device__ void read_words(std::int32_t step, std::uint32_t (&words)[2][4]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::int64_t of_row = std::int64_t{first_row_ + query_ + half * 8} * (work_.seq / 32);
      const uint4 four =
          __ldg(reinterpret_cast<const uint4*>(work_.words + of_row + step * (kKeys / 32)));
      words[half][0] = four.x;
      words[half][1] = four.y;
      words[half][2] = four.z;
      words[half][3] = four.w;
    }
  }

  /// Shifts words so that this thread's columns come first.
  __device__ static void take_words(const std::uint32_t (&words)[2][4],
                                    std::uint32_t (&kept)[2][4]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int word = 0; word < 4; ++word)
        kept[half][word] = words[half][word] >> lane_column();
    }
  }

  /// Makes one word of each query and gets those that the other lanes of the row make; shifted so
  /// that this thread's columns come first.
  template <int kBits, int kRounds>
  __device__ void make_words(std::int32_t step, std::uint32_t (&kept)[2][4]) const {
    const auto lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::uint32_t made = keep_word_unrolled<kBits, kRounds>(
          work_.rule, row(half), static_cast<std::uint32_t>(step * (kKeys / 32) + lane % 4));
#pragma unroll
      for (int word = 0; word < 4; ++word)
        kept[half][word] = __shfl_sync(0xffffffff, made, (lane & ~3) + word) >> lane_column();
    }
  }

  /// What of a power counts.
  template <Dropping kDropping>
  __device__ static float weight(float power, const std::uint32_t (&kept)[2][4], int index) {
    if constexpr (kDropping == Dropping::no) return power;
    const std::uint32_t word = kept[index / 2 % 2][index / 16];
    const bool keeps = (word & std::uint32_t{1} << (index / 4 % 4 * 8 + index % 2)) != 0;
    return keeps ? power : 0.0F;
  }

  template <Dropping kDropping>
  __device__ static void pack(const float (&powers)[kKeys / 2], const std::uint32_t (&kept)[2][4],
                              std::uint32_t (&weights)[kKeys / 16][4]) {
#pragma unroll
    for (int index = 0; index < kKeys / 2; index += 2) {
      weights[index / 8][index / 2 % 4] =
          hopper::packed(weight<kDropping>(powers[index], kept, index),
                         weight<kDropping>(powers[index + 1], kept, index + 1), __nv_bfloat16{});
    }
  }

  __device__ void store(const float (&out)[kAttentionDim / 2], const float (&sum)[2]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float all = sum[half];
      all += __shfl_xor_sync(0xffffffff, all, 1);
      all += __shfl_xor_sync(0xffffffff, all, 2);
      const float factor = work_.keep_scale / all;
      __nv_bfloat16* to =
          work_.out + std::int64_t{first_row_ + query_ + half * 8} * kAttentionDim + lane_column();
#pragma unroll
      for (int group = 0; group < kAttentionDim / 8; ++group) {
        const int index = group * 4 + half * 2;
        *reinterpret_cast<std::uint32_t*>(to + group * 8) =
            hopper::packed(out[index] * factor, out[index + 1] * factor, __nv_bfloat16{});
      }
    }
  }

  const AttentionWork& work_;
  AttentionShared& shared_;
  std::int32_t steps_;
  std::int32_t first_row_;  ///< of the head, among all heads' tokens
  std::int64_t deadline_;
  std::int32_t query_ = 0;
};

template <Dropping kDropping, int kBits, int kRounds>
__global__ void __launch_bounds__(kAttentionThreads, 1)
    attend(const __grid_constant__ AttentionWork work) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(hopper::kSwizzleBytes) unsigned char bytes[];
  AttentionShared& shared = *reinterpret_cast<AttentionShared*>(bytes);
  if (threadIdx.x == 0) shared.init();
  __syncthreads();
  const auto warpgroup =
      __shfl_sync(0xffffffff, static_cast<int>(threadIdx.x) / hopper::kWarpgroup, 0);
  if (warpgroup == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    if (threadIdx.x == 0) AttentionTile(work, shared).load();
    return;
  }
  asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
  AttentionTile(work, shared).template compute<kDropping, kBits, kRounds>(warpgroup - 1);
#endif
}

}  // namespace stagger::gpu::overlap
