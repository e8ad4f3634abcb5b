#include "schedules/shape.hpp"

namespace stagger::schedules {
namespace {

std::int32_t first_live(const TileGrid& grid, KvTile kv) {
  QTile q{0};
  while (q.value < grid.q_tiles() && !grid.live(kv, q))
    ++q;
  return q.value;
}

}  // namespace

bool is_full(const TileGrid& grid) {
  return grid.live_tiles() > 0 &&
         grid.live_tiles() == std::int64_t{grid.kv_tiles()} * grid.q_tiles();
}

std::optional<Staircase> staircase(const TileGrid& grid) {
  if (grid.live_tiles() == 0) return std::nullopt;
  Staircase stairs{.offset = first_live(grid, KvTile{0})};
  if (grid.kv_tiles() > 1) stairs.ratio = first_live(grid, KvTile{1}) - stairs.offset;
  if (stairs.ratio < 1) return std::nullopt;
  for (KvTile kv{0}; kv.value < grid.kv_tiles(); ++kv) {
    const std::int64_t first = stairs.offset + std::int64_t{stairs.ratio} * kv.value;
    // A chain of this length that starts there leaves no gap: live tiles cannot lie before it.
    if (first >= grid.q_tiles() || first_live(grid, kv) != first ||
        grid.chain_length(kv) != grid.q_tiles() - first) {
      return std::nullopt;
    }
  }
  return stairs;
}

bool is_square_causal(const TileGrid& grid) {
  const auto stairs = staircase(grid);
  return stairs && stairs->offset == 0 && stairs->ratio == 1 && grid.kv_tiles() == grid.q_tiles();
}

}  // namespace stagger::schedules
