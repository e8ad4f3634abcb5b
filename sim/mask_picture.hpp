#pragma once

#include "core/tile_grid.hpp"

#include <cstdint>
#include <string>

namespace stagger::sim {

// A mask's tiles, rows by KV tile and columns by Q tile:
//
//     kv 0  pffp....      f full, p partial, . empty; where there are too many, a letter is a
//     kv 1  .pffp...      square of them: f if all are full, . if all are empty, else p
//     kv 2  ..pffp..

struct MaskTextOptions {
  int width = 80;          ///< columns of the terminal
  std::int32_t rows = 64;  ///< at most
};

/// The grid as text, and what its letters mean.
[[nodiscard]] std::string mask_text(const TileGrid& grid, const MaskTextOptions& options);

/// The grid as a picture; tiles of one kind beside each other are one rectangle. Throws
/// Error{limit} if there are more than a million of them.
[[nodiscard]] std::string mask_svg(const TileGrid& grid);

}  // namespace stagger::sim
