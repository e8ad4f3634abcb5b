#pragma once

#include "gpu/host_device.hpp"

#include <cstdint>

namespace stagger::gpu {

/// What the hopper kernel is compiled for: head_dim and tokens of a Q tile. A KV tile has
/// kHopperTileKv. A wider Q tile needs more registers for S and dP, a larger head_dim more for dK
/// and dV, which is why not every pair is there.
struct HopperShape {
  std::int32_t head_dim = 0;
  std::int32_t tile_q = 0;

  friend bool operator==(const HopperShape&, const HopperShape&) = default;
};
inline constexpr std::int32_t kHopperTileKv = 128;
inline constexpr HopperShape kHopperShapes[] = {{64, 64}, {64, 128}, {128, 64}, {128, 80}};

/// How the two compute warpgroups share a tile's dQ. Each has 64 rows of a product, and rows are
enum class DqSplit {
  queries,    ///< 64 of 128 queries
  dims,       ///< 64 queries; a warpgroup has half of head_dim in its columns
  transposed  ///< 64 of 128 elements of head_dim; columns are the queries, not a multiple of 64
};
[[nodiscard]] STAGGER_HOST_DEVICE constexpr DqSplit dq_split(const HopperShape& shape) {
  if (shape.tile_q == 128) return DqSplit::queries;
  return shape.tile_q == 64 ? DqSplit::dims : DqSplit::transposed;
}

/// Sums of a tile's dQ that a thread has.
[[nodiscard]] STAGGER_HOST_DEVICE constexpr std::int32_t dq_sums_of_thread(
    const HopperShape& shape) {
  constexpr std::int32_t kThreads = 256;
  return shape.tile_q * shape.head_dim / kThreads;
}

/// Place of an element in a tile of dQ.
struct DqPlace {
  std::int32_t query = 0;
  std::int32_t dim = 0;
};

/// dQ is summed in the order in which the compute warpgroups hold it, so that they write 16 bytes a
/// thread without bank conflicts and a tile is one contiguous bulk copy: element
/// ((warpgroup * quads + quad) * 128 + thread) * 4 + i of a tile is sum 4 quad + i of that thread.
[[nodiscard]] STAGGER_HOST_DEVICE constexpr DqPlace dq_place(const HopperShape& shape,
                                                             std::int32_t element) {
  const std::int32_t quads = dq_sums_of_thread(shape) / 4;
  const std::int32_t i = element % 4;
  const std::int32_t thread = element / 4 % 128;
  const std::int32_t quad = element / 512 % quads;
  const std::int32_t warpgroup = element / 512 / quads;
  const std::int32_t row = thread / 32 * 16 + thread % 32 / 4 + i / 2 * 8;
  const std::int32_t column = quad * 8 + thread % 4 * 2 + i % 2;
  switch (dq_split(shape)) {
    case DqSplit::queries:
      return {64 * warpgroup + row, column};
    case DqSplit::dims:
      return {row, shape.head_dim / 2 * warpgroup + column};
    case DqSplit::transposed:
      break;
  }
  return {column, 64 * warpgroup + row};
}

}  // namespace stagger::gpu
