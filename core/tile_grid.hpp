#pragma once

#include "core/index.hpp"

#include <cstdint>
#include <vector>

namespace stagger {

/// How much of a tile attends. Values are the characters of the `tiles` mask.
enum class TileKind : char {
  empty = '.',    ///< no pair attends: no task
  partial = 'p',  ///< some pairs attend: the kernel masks element by element
  full = 'f',     ///< every pair attends
};

/// Tiles of each kind.
struct TileCounts {
  std::int64_t full = 0;
  std::int64_t partial = 0;
  std::int64_t empty = 0;
  friend bool operator==(const TileCounts&, const TileCounts&) = default;
};

/// One head's attention matrix as tiles. Immutable; counts are made once, in the constructor.
class TileGrid {
 public:
  TileGrid() = default;

  /// `kinds` is row-major by KV tile: kinds[kv * q_tiles + q]. Requires matching sizes.
  TileGrid(std::int32_t kv_tiles, std::int32_t q_tiles, std::vector<TileKind> kinds);

  [[nodiscard]] std::int32_t kv_tiles() const { return kv_tiles_; }
  [[nodiscard]] std::int32_t q_tiles() const { return q_tiles_; }

  [[nodiscard]] TileKind kind(KvTile kv, QTile q) const {
    return kinds_[std::int64_t{kv.value} * q_tiles_ + q.value];
  }
  [[nodiscard]] bool live(KvTile kv, QTile q) const { return kind(kv, q) != TileKind::empty; }
  [[nodiscard]] bool contains(KvTile kv, QTile q) const {
    return kv.value >= 0 && kv.value < kv_tiles_ && q.value >= 0 && q.value < q_tiles_;
  }

  /// Live tiles of the whole grid: the tasks of one head.
  [[nodiscard]] std::int64_t live_tiles() const { return live_tiles_; }
  /// Live Q tiles of a KV tile: the length d of its chain.
  [[nodiscard]] std::int32_t chain_length(KvTile kv) const { return by_kv_[kv]; }
  /// Live KV tiles of a Q tile: the contributions k to one dQ tile.
  [[nodiscard]] std::int32_t contributions(QTile q) const { return by_q_[q]; }

  /// O(tiles).
  [[nodiscard]] TileCounts counts() const;
  /// Live Q tiles of a KV tile, ascending. O(q_tiles).
  [[nodiscard]] std::vector<QTile> live_q(KvTile kv) const;

  friend bool operator==(const TileGrid&, const TileGrid&) = default;

 private:
  std::int32_t kv_tiles_ = 0;
  std::int32_t q_tiles_ = 0;
  std::int64_t live_tiles_ = 0;
  IndexVector<std::int64_t, TileKind> kinds_;
  IndexVector<KvTile, std::int32_t> by_kv_;
  IndexVector<QTile, std::int32_t> by_q_;
};

}  // namespace stagger
