#pragma once

#include "workbench/designs/design.hpp"

#include <vector>

namespace stagger::designs {

// Lanes that several designs launch. Tiles that nobody attends to have no chain.

/// How many tasks a chain of a tile has for each head.
[[nodiscard]] std::int32_t chain_tasks(const TileGrid& grid, Keeps keeps, std::int32_t tile);

/// A CTA for each tile of each group of `heads` heads, group by group, tiles ascending or, across
/// all heads, longest chain first.
enum class Launched { ascending, longest_first };
[[nodiscard]] FreeLanes a_lane_each(const Problem& problem, Keeps keeps, std::int32_t gemms,
                                    std::int32_t heads = 1,
                                    Launched launched = Launched::ascending);

}  // namespace stagger::designs
