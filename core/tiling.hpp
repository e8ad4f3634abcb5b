#pragma once

#include "core/mask.hpp"
#include "core/tile_grid.hpp"

namespace stagger {

/// Tiles of a mask at a size: a tile is full if every pair of tokens in it attends, partial if
/// some do. Exact; O(tokens + tiles). Throws Error{invalid_input} if the mask does not fit the
/// lengths, Error{limit} above core/limits.hpp.
[[nodiscard]] TileGrid tile(const Mask& mask, const Lengths& lengths, const TileShape& shape);

}  // namespace stagger
