#pragma once

#include "core/head_grids.hpp"

#include <cstdint>
#include <string>

namespace stagger::sim {

// A mask's tiles, rows by KV tile and columns by Q tile:
//
//     kv 0  pffp....      f full, p partial, . empty; where there are too many, a letter is a
//     kv 1  .pffp...      square of them: f if all are full, . if all are empty, else p
//     kv 2  ..pffp..
//
// Grids that differ by head are under each other, below their heads.

struct MaskTextOptions {
  int width = 80;          ///< columns of the terminal
  std::int32_t rows = 64;  ///< at most
};

/// The grids as text, and what its letters mean.
[[nodiscard]] std::string mask_text(const HeadGrids& grids, const MaskTextOptions& options);

/// The grids as a picture; tiles of one kind beside each other are one rectangle. Throws
/// Error{limit} if there are more than a million of them.
[[nodiscard]] std::string mask_svg(const HeadGrids& grids);

}  // namespace stagger::sim
