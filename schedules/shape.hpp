#pragma once

#include "core/tile_grid.hpp"

#include <cstdint>
#include <optional>

namespace stagger::schedules {

/// Why a schedule that goes by shape does not apply where heads have several.
inline constexpr const char* kUnlikeHeads = "needs one mask for all heads; here they differ";

/// Every tile is live and there is at least one.
[[nodiscard]] bool is_full(const TileGrid& grid);

/// A staircase: KV tile i is live from Q tile `offset + ratio * i` to the last one.
struct Staircase {
  std::int32_t offset = 0;  ///< >= 0: Q tiles before the first KV tile's diagonal
  std::int32_t ratio = 1;   ///< >= 1: Q tiles per KV tile
};

/// The staircase a grid is, nullopt if it is none. Needs two KV tiles to tell the ratio (one KV
/// tile gives ratio 1).
[[nodiscard]] std::optional<Staircase> staircase(const TileGrid& grid);

/// The paper's causal mask: n x n tiles, KV tile i live from Q tile i on.
[[nodiscard]] bool is_square_causal(const TileGrid& grid);

}  // namespace stagger::schedules
