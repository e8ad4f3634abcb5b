#pragma once

#include "core/head_grids.hpp"
#include "core/mask.hpp"

#include <algorithm>
#include <cstdint>
#include <string>

namespace stagger {

/// Tiles of a mask at a size: a tile is full if every pair of tokens in it attends, partial if
/// some do. Exact; O(tokens + ranges of keys + tiles). Throws Error{invalid_input} if the mask does
/// not fit the lengths, Error{limit} above core/limits.hpp, Error{unsupported} if it is several
/// masks by head.
[[nodiscard]] TileGrid tile(const Mask& mask, const Lengths& lengths, const TileShape& shape);

/// Tiles of every head, of which some have masks of their own. Throws Error{usage} if there are
/// masks for another number of heads, and what tile() throws.
[[nodiscard]] HeadGrids tile_heads(const Mask& mask, const Lengths& lengths, const TileShape& shape,
                                   std::int32_t heads);

/// What is wrong where lengths make another number of tiles; empty if they make those.
[[nodiscard]] std::string tiles_apart(const Lengths& lengths, const TileShape& shape,
                                      std::int64_t q_tiles, std::int64_t kv_tiles);

/// The keys of a block-sparse mask's tile of keys [begin, end) that the query at a place in it
/// sees: of a partial tile, of which nobody knows the pairs, those not behind that place.
[[nodiscard]] constexpr KeyRange keys_of_tile(TileKind kind, std::int64_t place, std::int64_t begin,
                                              std::int64_t end) {
  switch (kind) {
    case TileKind::full:
      return {begin, end};
    case TileKind::partial:
      return {begin, std::min(begin + place + 1, end)};
    case TileKind::empty:
      break;
  }
  return {begin, begin};
}

}  // namespace stagger
