#include "core/tile_grid.hpp"

#include "core/error.hpp"

#include <utility>

namespace stagger {

TileGrid::TileGrid(std::int32_t kv_tiles, std::int32_t q_tiles, std::vector<TileKind> kinds)
    : kv_tiles_(kv_tiles),
      q_tiles_(q_tiles),
      kinds_(std::move(kinds)),
      by_kv_(at(kv_tiles), 0),
      by_q_(at(q_tiles), 0) {
  STAGGER_EXPECTS(kv_tiles >= 0 && q_tiles >= 0);
  STAGGER_EXPECTS(kinds_.size() == at(kv_tiles) * at(q_tiles));
  const TileKind* tile = kinds_.data();
  for (std::int32_t& in_kv : by_kv_) {
    for (std::int32_t& in_q : by_q_) {
      const std::int32_t live = *tile++ == TileKind::empty ? 0 : 1;
      in_kv += live;
      in_q += live;
    }
    live_tiles_ += in_kv;
  }
}

TileCounts TileGrid::counts() const {
  TileCounts counts;
  for (const TileKind kind : kinds_) {
    counts.full += kind == TileKind::full ? 1 : 0;
    counts.partial += kind == TileKind::partial ? 1 : 0;
    counts.empty += kind == TileKind::empty ? 1 : 0;
  }
  return counts;
}

std::vector<QTile> TileGrid::live_q(KvTile kv) const {
  std::vector<QTile> tiles;
  tiles.reserve(at(chain_length(kv)));
  for (QTile q{0}; q.value < q_tiles_; ++q) {
    if (live(kv, q)) tiles.push_back(q);
  }
  return tiles;
}

}  // namespace stagger
