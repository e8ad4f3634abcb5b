#pragma once

// Products of 64 x 64 tokens in double precision, by the threads of a CTA: what the reference needs
// that is too large for the host. It shares nothing with the kernels that it judges.
//
// A thread has 4 x 4 elements of a 64 x 64 matrix in registers, 16 apart:
//
//            column  0    1   … 15   16  …           thread = 16 * (row % 16) + column % 16
//     row 0         t0   t1     t15  t0
//         1         t16  t17    …
//
// Operands lie in shared memory as doubles. A row of scores is as many doubles plus one, so that
// the 16 threads of a matrix row, which read one column of 16 rows, read 16 different banks.
// fma() is explicit, because this library's products are compiled without contraction.

#include "gpu/check/block_mask.hpp"

#include <cstddef>
#include <cstdint>

namespace stagger::gpu::cuda {

inline constexpr std::int32_t kPairThreads = 256;
inline constexpr std::int32_t kPairSide = BlockMask::kSide;

/// A thread's 4 x 4 elements.
struct PairTile {
  static constexpr std::int32_t kEach = 4;
  static constexpr std::int32_t kApart = 16;
  double at[kEach][kEach] = {};

  __device__ static std::int32_t row(std::int32_t r) {
    return static_cast<std::int32_t>(threadIdx.x) / kApart + kApart * r;
  }
  __device__ static std::int32_t column(std::int32_t c) {
    return static_cast<std::int32_t>(threadIdx.x) % kApart + kApart * c;
  }

  /// Adds of_row[r] * of_column[c] to each element.
  __device__ void add_outer(const double (&of_row)[kEach], const double (&of_column)[kEach]) {
#pragma unroll
    for (std::int32_t r = 0; r < kEach; ++r) {
#pragma unroll
      for (std::int32_t c = 0; c < kEach; ++c)
        at[r][c] = fma(of_row[r], of_column[c], at[r][c]);
    }
  }
};

/// A view of up to 64 rows of a tensor; beyond them, and beyond its columns, there are zeros.
struct PairRows {
  const float* first = nullptr;
  std::int32_t rows = 0;
  std::int32_t columns = 0;

  __device__ double at(std::int32_t row, std::int32_t column) const {
    return row < rows && column < columns ? double{first[row * columns + column]} : 0.0;
  }
};

/// Shared memory that a CTA multiplies from.
struct PairShared {
  static constexpr std::int32_t kSlice = 32;  ///< columns of a slice of both operands
  static constexpr std::int32_t kSliceStride = kSlice + 1;
  static constexpr std::int32_t kWeightStride = kPairSide + 1;

  static constexpr std::int32_t kSliceElements = kPairSide * kSliceStride;

  double operands[2 * kSliceElements];        ///< a slice of both, or one that is 64 x 64
  double weights[kPairSide * kWeightStride];  ///< (token that is summed over, row)
};
static_assert(2 * PairShared::kSliceElements >= kPairSide * kPairSide);

/// Adds left row . right row to sum(row, column).
__device__ inline void add_scores(PairTile& sum, const PairRows& left, const PairRows& right,
                                  PairShared& shared) {
  double* const lefts = shared.operands;
  double* const rights = shared.operands + PairShared::kSliceElements;
  for (std::int32_t first = 0; first < left.columns; first += PairShared::kSlice) {
    __syncthreads();  // nobody reads the slices before any more
    for (auto index = static_cast<std::int32_t>(threadIdx.x);
         index < kPairSide * PairShared::kSlice; index += kPairThreads) {
      const std::int32_t row = index / PairShared::kSlice;
      const std::int32_t column = index % PairShared::kSlice;
      lefts[row * PairShared::kSliceStride + column] = left.at(row, first + column);
      rights[row * PairShared::kSliceStride + column] = right.at(row, first + column);
    }
    __syncthreads();
#pragma unroll 4
    for (std::int32_t k = 0; k < PairShared::kSlice; ++k) {
      double of_row[PairTile::kEach];
      double of_column[PairTile::kEach];
#pragma unroll
      for (std::int32_t each = 0; each < PairTile::kEach; ++each) {
        of_row[each] = lefts[PairTile::row(each) * PairShared::kSliceStride + k];
        of_column[each] = rights[PairTile::column(each) * PairShared::kSliceStride + k];
      }
      sum.add_outer(of_row, of_column);
    }
  }
}

/// Adds weights(k, row) * operand(k, first + column) to sum(row, column), over the 64 tokens k.
__device__ inline void add_weighted(PairTile& sum, const PairRows& operand, std::int32_t first,
                                    PairShared& shared) {
  double* const rows = shared.operands;
  __syncthreads();  // nobody reads the slices any more, and the weights are there
  for (auto index = static_cast<std::int32_t>(threadIdx.x); index < kPairSide * kPairSide;
       index += kPairThreads)
    rows[index] = operand.at(index / kPairSide, first + index % kPairSide);
  __syncthreads();
#pragma unroll 4
  for (std::int32_t k = 0; k < kPairSide; ++k) {
    double of_row[PairTile::kEach];
    double of_column[PairTile::kEach];
#pragma unroll
    for (std::int32_t each = 0; each < PairTile::kEach; ++each) {
      of_row[each] = shared.weights[k * PairShared::kWeightStride + PairTile::row(each)];
      of_column[each] = rows[k * kPairSide + PairTile::column(each)];
    }
    sum.add_outer(of_row, of_column);
  }
}

}  // namespace stagger::gpu::cuda
