#pragma once

#include "core/tile_grid.hpp"

#include <cstdint>
#include <vector>

namespace stagger::schedules {

/// For every live tile, its KV tile's position among the live ones of its Q tile, ascending: the
/// rank in an accumulation order by KV tile. Four bytes a tile of the grid.
class LiveRanks {
 public:
  explicit LiveRanks(const TileGrid& grid)
      : q_tiles_(grid.q_tiles()), ranks_(grid.kv_tiles() * q_tiles_) {
    IndexVector<QTile, std::int32_t> seen(q_tiles_, 0);
    for (KvTile kv{0}; kv.value < grid.kv_tiles(); ++kv) {
      for (QTile q{0}; q.value < grid.q_tiles(); ++q) {
        ranks_[place(kv, q)] = seen[q];
        if (grid.live(kv, q)) ++seen[q];
      }
    }
  }

  [[nodiscard]] std::int32_t of(KvTile kv, QTile q) const { return ranks_[place(kv, q)]; }

 private:
  [[nodiscard]] std::int64_t place(KvTile kv, QTile q) const {
    return kv.value * q_tiles_ + q.value;
  }

  std::int64_t q_tiles_;
  IndexVector<std::int64_t, std::int32_t> ranks_;
};

[[nodiscard]] inline LiveRanks live_ranks(const TileGrid& grid) {
  return LiveRanks(grid);
}

}  // namespace stagger::schedules
