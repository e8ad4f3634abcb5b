#pragma once

// Dropout in the compute warpgroups of the hopper kernel: which of a step's elements are kept.
//
// A warp has 16 keys of a step's scores, rows of S^T, and all its queries. Bits of 16 keys of a
// query are half a stored word, or one call of Philox where 8 bits decide. So lane l asks for those
// of the queries l, l + 32 …, and what a thread needs it gets from the lane that has its query:
//
//            bits  0 … 7 8 … 15 | 16 … 31          a thread's keys are lane / 4 and that + 8,
//     lane l       keys of query l | of l + 32      its queries 8 g + lane % 4 * 2 and the next one

#include "gpu/numerics/dropout.hpp"

namespace stagger::gpu::hopper {

/// A pass in which nothing is dropped.
struct KeepsAll {
  __device__ explicit KeepsAll(const DropoutWords&) {}
  __device__ static float weighed(int, float p) { return p; }
  __device__ static float difference(int, float dp, float delta) { return dp - delta; }
};

/// The elements of a step that a thread has, `index` being that of its sums.
template <int kStepQ>
class Kept {
 public:
  __device__ explicit Kept(const DropoutWords& dropout) : dropout_(dropout) {}

  /// Where 16 keys of a warp are: `first` is the step's first query, `half` their place among those
  /// of a row.
  struct Place {
    DropoutRow first;
    std::uint32_t half;
  };

  // A lane asks for stored bits, or makes generated ones. Beyond the last query or key nothing is
  // kept.

  __device__ void ask(const Place& place) {
    if (dropout_.stored == nullptr) return;
#pragma unroll
    for (int part = 0; part < kParts; ++part)
      put(part, part_of(place, part));
  }
  __device__ void make(const Place& place) {
    if (dropout_.stored != nullptr) return;
#pragma unroll 1  // as it is long
    for (int part = 0; part < kParts; ++part)
      put(part, part_of(place, part));
  }

  /// Gives all lanes of the warp what they need.
  __device__ void hand_out() {
    low_ = handed_out<8>(low_);
    if constexpr (kParts > 2) high_ = handed_out<(kStepQ - 64) / 8>(high_);
  }

  __device__ float weighed(int index, float p) const {
    return p * weight(index);
  }
  __device__ float difference(int index, float dp, float delta) const {
    return __fmaf_rn(dp, weight(index), -delta);
  }

 private:
  static constexpr int kParts = (kStepQ + 31) / 32;  ///< queries that a lane asks for

  __device__ std::uint32_t part_of(const Place& place, int part) const {
    DropoutRow row = place.first;
    row.query += threadIdx.x % 32 + 32 * part;
    const bool is_there =
        row.query < dropout_.layout.seq_q && std::int64_t{place.half} * 16 < dropout_.layout.seq_kv;
    return is_there ? dropout_.half(row, place.half) : 0;
  }
  __device__ void put(int part, std::uint32_t bits) {
    const std::uint32_t shifted = bits << part % 2 * 16;
    (part < 2 ? low_ : high_) |= shifted;
  }

  /// Returns the bits of this thread's elements of up to 64 queries: bit 4 g + i is that of element
  /// i in group g of 8 queries. Groups g and g + 4 are asked of the same lane.
  template <int kGroups>
  __device__ static std::uint32_t handed_out(std::uint32_t asked) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    std::uint32_t bits = 0;
#pragma unroll
    for (int group = 0; group < (kGroups < 4 ? kGroups : 4); ++group) {
#pragma unroll
      for (int next = 0; next < 2; ++next) {
        const std::uint32_t keys =
            __shfl_sync(0xffffffff, asked, 8 * group + lane % 4 * 2 + next) >> lane / 4;
        bits |= ((keys & 0x00010001) | (keys >> 6 & 0x00040004)) << (4 * group + next);
      }
    }
    return bits;
  }

  [[nodiscard]] __device__ float weight(int index) const {
    return ((index < 32 ? low_ : high_) >> index % 32 & 1) != 0 ? dropout_.scale : 0.0F;
  }

  const DropoutWords& dropout_;
  std::uint32_t low_ = 0;  ///< of groups 0 to 7
  std::uint32_t high_ = 0;
};

}  // namespace stagger::gpu::hopper
