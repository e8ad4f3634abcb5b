#pragma once

#include "gpu/hopper/divisor.hpp"
#include "gpu/numerics/dropout.hpp"
#include "gpu/numerics/host_device.hpp"

#include <cstdint>

namespace stagger::gpu::overlap {

/// C (m x n) = A (m x k) times the transpose of B (n x k), rows one behind the other.
struct GemmShape {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;

  [[nodiscard]] constexpr std::int64_t flops() const { return 2 * m * n * k; }
};

inline constexpr int kTileM = 128;  ///< of C, that a CTA makes at a time
inline constexpr int kTileN = 256;
inline constexpr int kTileK = 64;  ///< of the sum, that a stage holds
/// CTAs that share a tile of B: each loads a part for all, so that L2 is read a third less.
inline constexpr int kCluster = 2;

/// Whether the GEMM of gemm.cuh runs a shape: whole tiles of a cluster, numbers of 32 bits.
[[nodiscard]] constexpr bool runs(const GemmShape& shape) {
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  constexpr std::int64_t kRows = std::int64_t{kTileM} * kCluster;
  return shape.m > 0 && shape.n > 0 && shape.k > 0 && shape.m <= kMost && shape.n <= kMost &&
         shape.k <= kMost && shape.m % kRows == 0 && shape.n % kTileN == 0 &&
         shape.k % kTileK == 0 && shape.m / kRows * (shape.n / kTileN) < kMost;
}

/// The order in which clusters take the tiles of C: bands of eight rows of tiles, column by column
/// within a band, so that what is under way at a time reads few rows of A and of B.
///
///     0 8 16 …     a band of a cluster's tiles, eight of them high
///     1 9 17
///     …
struct TileOrder {
  std::int32_t rows = 0;  ///< of a cluster's tiles
  std::int32_t columns = 0;

  static constexpr std::int32_t kBand = 8;
  struct Place {
    std::int32_t row;
    std::int32_t column;
  };

  [[nodiscard]] STAGGER_HOST_DEVICE constexpr std::int32_t tiles() const { return rows * columns; }
  [[nodiscard]] STAGGER_HOST_DEVICE constexpr Place place(std::int32_t index) const {
    const std::int32_t band = index / (kBand * columns);
    const std::int32_t within = index - band * kBand * columns;
    const std::int32_t high = rows - band * kBand < kBand ? rows - band * kBand : kBand;
    return {band * kBand + within % high, within / high};
  }
};

/// The bits of one layer's dropout, as they are made: by chunks of words, a warp each.
struct BitsWork {
  DropoutRule rule = {};
  hopper::Divisor words_of_row;
  hopper::Divisor seq;          ///< rows of a head
  hopper::Divisor heads;        ///< of a batch entry
  std::int32_t words = 0;       ///< in all, in the order of DropoutLayout
  std::uint32_t* to = nullptr;  ///< device memory

  static constexpr std::int32_t kChunk = 512;  ///< words, of a warp

  [[nodiscard]] STAGGER_HOST_DEVICE constexpr std::int32_t chunks() const {
    return words / kChunk + (words % kChunk != 0 ? 1 : 0);
  }
};

/// Returns the work of [batch, heads, seq, ceil(seq / 32)] words, of which there are fewer than
/// 2^31 (a ContractViolation otherwise).
[[nodiscard]] BitsWork bits_work(const DropoutRule& rule, std::int64_t batch, std::int64_t heads,
                                 std::int64_t seq, std::uint32_t* to);

/// Where a word is.
struct WordPlace {
  DropoutRow row;
  std::int32_t place = 0;  ///< in the row
};

[[nodiscard]] STAGGER_HOST_DEVICE constexpr WordPlace word_place(const BitsWork& work,
                                                                 std::int32_t word) {
  const std::int32_t row = work.words_of_row.quotient(word);
  const std::int32_t head = work.seq.quotient(row);
  const std::int32_t batch = work.heads.quotient(head);
  return {{static_cast<std::uint32_t>(batch),
           static_cast<std::uint32_t>(head - batch * work.heads.value()),
           static_cast<std::uint32_t>(row - head * work.seq.value())},
          word - row * work.words_of_row.value()};
}

/// Goes to the word `words` further on.
STAGGER_HOST_DEVICE constexpr void advance(const BitsWork& work, std::int32_t words,
                                           WordPlace& at) {
  at.place += words;
  while (at.place >= work.words_of_row.value()) {
    at.place -= work.words_of_row.value();
    ++at.row.query;
    if (at.row.query == static_cast<std::uint32_t>(work.seq.value())) {
      at.row.query = 0;
      ++at.row.head;
    }
    if (at.row.head == static_cast<std::uint32_t>(work.heads.value())) {
      at.row.head = 0;
      ++at.row.batch;
    }
  }
}

/// Makes what lane `lane` of a warp makes of a chunk: every 32nd word. Requires kBits and kRounds
/// of the rule.
template <int kBits, int kRounds>
STAGGER_HOST_DEVICE constexpr void make_bits(const BitsWork& work, std::int32_t chunk,
                                             std::int32_t lane) {
  std::int32_t word = chunk * BitsWork::kChunk + lane;
  const std::int32_t left = work.words - chunk * BitsWork::kChunk;
  const std::int32_t end = left < BitsWork::kChunk ? work.words : word - lane + BitsWork::kChunk;
  if (word >= end) return;
  WordPlace at = word_place(work, word);
#ifdef __CUDA_ARCH__
#pragma unroll 1
#endif
  for (; word < end; word += 32) {
    work.to[word] =
        keep_word_unrolled<kBits, kRounds>(work.rule, at.row, static_cast<std::uint32_t>(at.place));
    advance(work, 32, at);
  }
}

}  // namespace stagger::gpu::overlap
