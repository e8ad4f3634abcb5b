#pragma once

#include "gpu/numerics/host_device.hpp"

#include <cstdint>

namespace stagger::gpu::hopper {

/// What the hopper kernel runs: head_dim, tokens of a Q tile, and how many of them it does at once.
/// A KV tile has kTileKv. A wider step needs more registers for S and dP, a larger head_dim
/// more for dK and dV: where not both have room, a task is several steps.
struct Shape {
  std::int32_t head_dim = 0;
  std::int32_t tile_q = 0;
  std::int32_t step_q = 0;

  [[nodiscard]] constexpr std::int32_t steps() const { return tile_q / step_q; }
  friend bool operator==(const Shape&, const Shape&) = default;
};
inline constexpr std::int32_t kTileKv = 128;
inline constexpr Shape kShapes[] = {{64, 64, 64},  {64, 80, 80},  {64, 128, 128},
                                    {128, 64, 64}, {128, 80, 80}, {128, 128, 64}};

/// Finds the kernel's shape for a head_dim and tiles; nullptr if it has none.
[[nodiscard]] constexpr const Shape* find_shape(std::int64_t head_dim, std::int64_t tile_q,
                                                std::int64_t tile_kv) {
  for (const Shape& shape : kShapes) {
    if (shape.head_dim == head_dim && shape.tile_q == tile_q && tile_kv == kTileKv) return &shape;
  }
  return nullptr;
}

/// Queries of its step that see a key, [begin, end), at most 128.
struct SeenQueries {
  std::uint8_t begin = 0;
  std::uint8_t end = 0;
};

/// A score of a step, S^T, in the registers of the compute threads: `index` of thread `thread` of
/// both warpgroups' 256.
struct ScorePlace {
  std::int32_t thread = 0;
  std::int32_t index = 0;
};

/// Finds the score of a step's query and a KV tile's key. Rows are keys, of which a warpgroup has
/// 64, columns are queries, and wgmma's sums lie as wgmma.cuh says.
[[nodiscard]] STAGGER_HOST_DEVICE constexpr ScorePlace score_place(std::int32_t query,
                                                                   std::int32_t key) {
  return {key / 16 * 32 + key % 8 * 4 + query % 8 / 2,
          query / 8 * 4 + key % 16 / 8 * 2 + query % 2};
}

/// Counts the scores of one key that a thread has of the queries before `end`: two of every eight.
[[nodiscard]] STAGGER_HOST_DEVICE constexpr std::int32_t scores_before(std::int32_t thread,
                                                                       std::int32_t end) {
  const std::int32_t behind = end - thread % 4 * 2;
  const std::int32_t rest = behind > 0 ? behind : 0;
  return rest / 8 * 2 + (2 < rest % 8 ? 2 : rest % 8);
}

/// Which pairs of tokens of a step attend, where a range of queries for each key does not say it: a
/// bit for each score, in the order in which threads hold them. Bit i of thread t is bit i % 32 of
/// the word t where i is below 32; the rest follow, as many bytes a thread as it takes.
struct SeenBits {
  std::int32_t step_q = 64;

  [[nodiscard]] STAGGER_HOST_DEVICE constexpr std::int32_t bytes() const {
    return kFirst + kThreads * rest();
  }
  /// Counts the bytes of a thread's bits beyond 32.
  [[nodiscard]] STAGGER_HOST_DEVICE constexpr std::int32_t rest() const {
    return (step_q / 2 - 32) / 8;
  }
  /// Finds the byte and the bit in it of a score.
  struct Place {
    std::int32_t byte = 0;
    std::int32_t bit = 0;
  };
  [[nodiscard]] constexpr Place place(const ScorePlace& score) const {
    const std::int32_t bit = score.index % 8;
    if (score.index < 32) return {score.thread * 4 + score.index / 8, bit};
    return {kFirst + score.thread * rest() + (score.index - 32) / 8, bit};
  }

  static constexpr std::int32_t kThreads = 256;
  static constexpr std::int32_t kFirst = kThreads * 4;
};

/// What a kernel does beside the arithmetic of a full tile or of ranges of queries: a compilation
/// of its own for each, as code costs time where it is not run, too.
enum class Extras {
  none,
  bits,     ///< hides what a mask tells bit by bit
  dropout,  ///< and drops
  ordered,  ///< adds the parts of dK and dV in order; what follows does one of the above, too
  ordered_bits,
  ordered_dropout,
};
[[nodiscard]] STAGGER_HOST_DEVICE constexpr bool hides_bits(Extras extras) {
  return extras != Extras::none && extras != Extras::ordered;
}
[[nodiscard]] STAGGER_HOST_DEVICE constexpr bool drops(Extras extras) {
  return extras == Extras::dropout || extras == Extras::ordered_dropout;
}
[[nodiscard]] STAGGER_HOST_DEVICE constexpr bool adds_in_order(Extras extras) {
  return extras >= Extras::ordered;
}

/// How the two compute warpgroups share a step's dQ. Each has 64 rows of a product, and rows are
enum class DqSplit {
  queries,  ///< 64 of 128 queries
  dims,     ///< 64 queries; a warpgroup has half of head_dim in its columns
  // Transposed, as 80 queries are no multiple of 64: columns are queries.
  rows_of_dims,     ///< 64 of 128 elements of head_dim; all queries in the columns
  columns_of_dims,  ///< all 64 of head_dim; a warpgroup has half of the queries in its columns
};
[[nodiscard]] STAGGER_HOST_DEVICE constexpr DqSplit dq_split(std::int32_t head_dim,
                                                             std::int32_t step_q) {
  if (step_q == 128) return DqSplit::queries;
  if (step_q == 64) return DqSplit::dims;
  return head_dim == 128 ? DqSplit::rows_of_dims : DqSplit::columns_of_dims;
}

/// Counts the sums of a step's dQ that a thread has.
[[nodiscard]] STAGGER_HOST_DEVICE constexpr std::int32_t dq_sums_of_thread(std::int32_t head_dim,
                                                                           std::int32_t step_q) {
  constexpr std::int32_t kThreads = 256;
  return step_q * head_dim / kThreads;
}

/// Warps that have dK and dV of a KV tile in registers, kWarpKeys keys each. Where parts are added
/// in order each warp waits for its own turn: the tile has as many semaphores, all passed on in the
/// order of the ranks.
inline constexpr std::int32_t kDkvWarps = 8;
inline constexpr std::int32_t kWarpKeys = 16;
static_assert(kDkvWarps * kWarpKeys == kTileKv);

/// The place of an element in dK or dV of a KV tile.
struct DkvPlace {
  std::int32_t key = 0;
  std::int32_t dim = 0;
};

/// Finds an element of dK or dV, which parts are added to in the order in which the warps hold
/// them, 16 bytes a thread: element ((warp * head_dim / 8 + quad) * 32 + lane) * 4 + i of a tile is
/// sum 4 quad + i of that thread.
[[nodiscard]] STAGGER_HOST_DEVICE constexpr DkvPlace dkv_place(std::int32_t head_dim,
                                                               std::int32_t element) {
  const std::int32_t i = element % 4;
  const std::int32_t lane = element / 4 % 32;
  const std::int32_t quad = element / 128 % (head_dim / 8);
  const std::int32_t warp = element / (kWarpKeys * head_dim);
  return {kWarpKeys * warp + lane / 4 + i / 2 * 8, quad * 8 + lane % 4 * 2 + i % 2};
}

/// The place of an element in a step of dQ.
struct DqPlace {
  std::int32_t query = 0;
  std::int32_t dim = 0;
};

/// Finds an element of dQ, which is summed in the order in which the compute warpgroups hold it, so
/// that they write 16 bytes a thread without bank conflicts and a step is one contiguous bulk copy:
/// element
/// ((warpgroup * quads + quad) * 128 + thread) * 4 + i of a step is sum 4 quad + i of that thread.
[[nodiscard]] STAGGER_HOST_DEVICE constexpr DqPlace dq_place(std::int32_t head_dim,
                                                             std::int32_t step_q,
                                                             std::int32_t element) {
  const std::int32_t quads = dq_sums_of_thread(head_dim, step_q) / 4;
  const std::int32_t i = element % 4;
  const std::int32_t thread = element / 4 % 128;
  const std::int32_t quad = element / 512 % quads;
  const std::int32_t warpgroup = element / 512 / quads;
  const std::int32_t row = thread / 32 * 16 + thread % 32 / 4 + i / 2 * 8;
  const std::int32_t column = quad * 8 + thread % 4 * 2 + i % 2;
  switch (dq_split(head_dim, step_q)) {
    case DqSplit::queries:
      return {64 * warpgroup + row, column};
    case DqSplit::dims:
      return {row, head_dim / 2 * warpgroup + column};
    case DqSplit::rows_of_dims:
      return {column, 64 * warpgroup + row};
    case DqSplit::columns_of_dims:
      break;
  }
  return {step_q / 2 * warpgroup + column, row};
}

}  // namespace stagger::gpu::hopper
