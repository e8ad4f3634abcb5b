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
      : q_tiles_(static_cast<std::size_t>(grid.q_tiles())),
        ranks_(static_cast<std::size_t>(grid.kv_tiles()) * q_tiles_) {
    std::vector<std::int32_t> seen(q_tiles_, 0);
    for (KvTile kv{0}; kv.value < grid.kv_tiles(); ++kv) {
      for (QTile q{0}; q.value < grid.q_tiles(); ++q) {
        const auto column = static_cast<std::size_t>(q.value);
        ranks_[place(kv, q)] = seen[column];
        if (grid.live(kv, q)) ++seen[column];
      }
    }
  }

  [[nodiscard]] std::int32_t of(KvTile kv, QTile q) const { return ranks_[place(kv, q)]; }

 private:
  [[nodiscard]] std::size_t place(KvTile kv, QTile q) const {
    return static_cast<std::size_t>(kv.value) * q_tiles_ + static_cast<std::size_t>(q.value);
  }

  std::size_t q_tiles_;
  std::vector<std::int32_t> ranks_;
};

}  // namespace stagger::schedules
