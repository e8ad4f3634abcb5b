#pragma once

#include "core/index.hpp"
#include "core/timing.hpp"

#include <cstdint>
#include <random>
#include <vector>

namespace stagger::sim {

/// What is known of a tile.
struct CachedTile {
  static constexpr std::int32_t kOutside = -1;

  Ticks arrival = 0;              ///< when it is or was there
  Ticks touched = 0;              ///< when it was asked for last
  std::int32_t place = kOutside;  ///< in the cache
  bool dirty = false;             ///< written to since it was taken in

  [[nodiscard]] bool held() const { return place != kOutside; }
};

/// A cache of whole tiles that makes room by throwing out what was not asked for for long: of
/// kDrawn tiles in it, drawn at random, the one that was touched first, and of equals the one drawn
/// first. Of `count` tiles a draw is that at place floor(draw * count / 2^32), where std::mt19937
/// in its initial state draws, and the last takes the place of the one that leaves. Every play of
/// the same touches is the same.
///
/// By chance, as what a GPU's L2 forgets is not documented: the least recently used of all would
/// keep none of the tiles that are touched in turn and do not quite fit, where a part is hit.
class TileCache {
 public:
  /// For so many bytes, of tiles with numbers below `tiles`.
  TileCache(std::int64_t capacity, std::int64_t tiles) : capacity_(capacity), known_(tiles) {}

  [[nodiscard]] CachedTile& operator[](std::int64_t tile) { return known_[tile]; }

  /// Takes in a tile that is not held. Calls leave(tile) for each tile that leaves, for this one
  /// too if it is larger than the cache. `bytes_of(tile)` gives a tile's size. O(1) a tile.
  template <class BytesOf, class Leave>
  void take(std::int32_t tile, BytesOf bytes_of, Leave leave) {
    const std::int64_t bytes = bytes_of(tile);
    while (held_ + bytes > capacity_ && !tiles_.empty()) {
      const std::int32_t thrown = throw_out();
      held_ -= bytes_of(thrown);
      leave(thrown);
    }
    if (bytes > capacity_) return leave(tile);
    known_[tile].place = static_cast<std::int32_t>(tiles_.size());
    tiles_.push_back(tile);
    held_ += bytes;
  }

 private:
  static constexpr int kDrawn = 4;

  std::int32_t throw_out() {
    std::size_t oldest = draw();
    for (int drawn = 1; drawn < kDrawn; ++drawn) {
      const std::size_t place = draw();
      if (touched(place) < touched(oldest)) oldest = place;
    }
    const std::int32_t thrown = tiles_[oldest];
    known_[tiles_.back()].place = static_cast<std::int32_t>(oldest);
    tiles_[oldest] = tiles_.back();
    tiles_.pop_back();
    known_[thrown].place = CachedTile::kOutside;
    return thrown;
  }

  std::size_t draw() { return std::uint64_t{dice_()} * tiles_.size() >> 32U; }
  [[nodiscard]] Ticks touched(std::size_t place) const { return known_[tiles_[place]].touched; }

  std::int64_t capacity_;                        ///< bytes
  std::int64_t held_ = 0;                        ///< bytes
  std::vector<std::int32_t> tiles_;              ///< those held
  IndexVector<std::int64_t, CachedTile> known_;  ///< by tile
  std::mt19937 dice_;                            ///< the standard says what it draws
};

}  // namespace stagger::sim
