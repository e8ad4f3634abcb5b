// Tiling is the same for every token-level mask: a query adds itself to the KV tiles that its key
// ranges touch and to those they cover, by difference arrays, so that a Q tile costs its queries'
// ranges plus its tiles. Ranges of a query that touch are one, so that none covers a tile by two.

#include "core/tiling.hpp"

#include "core/checked.hpp"
#include "core/error.hpp"
#include "core/limits.hpp"
#include "core/mask_rules.hpp"

#include <algorithm>
#include <utility>

namespace stagger {
namespace {

std::int32_t tile_count(const char* what, std::int64_t tokens, std::int64_t tile) {
  if (tile < 1) throw Error(ErrorKind::usage, std::string(what) + " tile size must be 1 or more");
  if (tile > kMaxTokens) {
    throw Error(ErrorKind::limit, std::string(what) + " tile size " + std::to_string(tile) +
                                      " is above " + std::to_string(kMaxTokens) + " tokens");
  }
  if (tokens < 0 || tokens > kMaxTokens) {
    throw Error(ErrorKind::limit, std::string(what) + " length " + std::to_string(tokens) +
                                      " is not within 0 to " + std::to_string(kMaxTokens));
  }
  const std::int64_t tiles = divide_up(tokens, tile);
  if (tiles > kMaxTiles) {
    throw Error(ErrorKind::limit, std::to_string(tiles) + " " + what + " tiles; at most " +
                                      std::to_string(kMaxTiles) + " are supported");
  }
  return static_cast<std::int32_t>(tiles);
}

/// How many queries of one Q tile touch and cover each KV tile, by difference arrays.
class TileCoverage {
 public:
  TileCoverage(const Lengths& lengths, std::int64_t tile, std::int32_t kv_tiles)
      : keys_(lengths.kv), tile_(tile), touch_(kv_tiles + 1), cover_(kv_tiles + 1) {}

  void add(const KeyRange& row) {
    if (row.begin >= row.end) return;
    ++touch_[row.begin / tile_];
    --touch_[(row.end - 1) / tile_ + 1];
    const std::int64_t first = divide_up(row.begin, tile_);
    const std::int64_t last = row.end == keys_ ? std::ssize(cover_) - 1 : row.end / tile_;
    if (first < last) {
      ++cover_[first];
      --cover_[last];
    }
  }

  /// Calls `tile(kv, kind)` for every KV tile and clears the counts. `queries` rows were added.
  template <class Tile>
  void drain(std::int64_t queries, Tile tile) {
    std::int64_t touched = 0;
    std::int64_t covered = 0;
    for (KvTile kv{0}; kv.value + 1 < std::ssize(touch_); ++kv) {
      touched += std::exchange(touch_[kv.value], 0);
      covered += std::exchange(cover_[kv.value], 0);
      tile(kv, covered == queries ? TileKind::full
               : touched > 0      ? TileKind::partial
                                  : TileKind::empty);
    }
    touch_.back() = 0;
    cover_.back() = 0;
  }

 private:
  std::int64_t keys_;
  std::int64_t tile_;
  // By KV tile, and one more: how many more queries touch or cover a tile than the one before.
  IndexVector<std::int64_t, std::int32_t> touch_;
  IndexVector<std::int64_t, std::int32_t> cover_;
};

}  // namespace

HeadGrids tile_heads(const Mask& mask, const Lengths& lengths, const TileShape& shape,
                     std::int32_t heads) {
  STAGGER_EXPECTS(mask.family != nullptr);
  if (!mask.family->by_head) return tile(mask, lengths, shape);
  check_mask_heads(mask, heads);
  const std::vector<Mask>& masks = mask.masks("of");
  std::vector<TileGrid> grids;
  grids.reserve(masks.size());
  for (const Mask& each : masks) {
    grids.push_back(tile(each, lengths, shape));
    const TileGrid& first = grids.front();
    const std::int64_t tiles = std::int64_t{first.kv_tiles()} * first.q_tiles();
    if (tiles * std::ssize(masks) > kMaxMaskTiles) {
      throw Error(ErrorKind::limit, std::to_string(masks.size()) + " masks of " +
                                        std::to_string(first.kv_tiles()) + " x " +
                                        std::to_string(first.q_tiles()) + " tiles; at most " +
                                        std::to_string(kMaxMaskTiles) + " tiles are supported");
    }
  }
  IndexVector<Head, std::int32_t> of_head;
  of_head.reserve(heads);
  for (Head head{0}; head.value < heads; ++head)
    of_head.push_back(mask_place(mask, head));
  return {grids, of_head};
}

TileGrid tile(const Mask& mask, const Lengths& lengths, const TileShape& shape) {
  STAGGER_EXPECTS(mask.family != nullptr);
  expect_not_by_head(mask);
  const std::int32_t q_tiles = tile_count("query", lengths.q, shape.q);
  const std::int32_t kv_tiles = tile_count("key", lengths.kv, shape.kv);
  if (std::int64_t{q_tiles} * kv_tiles > kMaxGridTiles) {
    throw Error(ErrorKind::limit, std::to_string(kv_tiles) + " x " + std::to_string(q_tiles) +
                                      " tiles; at most " + std::to_string(kMaxGridTiles) +
                                      " a head are supported");
  }
  if (mask.family->tiles != nullptr) return mask.family->tiles(mask, kv_tiles, q_tiles);

  const KeyRanges rows = key_ranges(mask, lengths, shape);
  IndexVector<std::int64_t, TileKind> kinds(std::int64_t{kv_tiles} * q_tiles);
  TileCoverage coverage(lengths, shape.kv, kv_tiles);
  for (QTile q{0}; q.value < q_tiles; ++q) {
    const std::int64_t begin = q.value * shape.q;
    const std::int64_t end = std::min(begin + shape.q, lengths.q);
    for (std::int64_t query = begin; query < end; ++query) {
      for (const KeyRange& keys : rows.of(query))
        coverage.add(keys);
    }
    coverage.drain(end - begin, [&](KvTile kv, TileKind kind) {
      kinds[std::int64_t{kv.value} * q_tiles + q.value] = kind;
    });
  }
  return {kv_tiles, q_tiles, std::move(kinds)};
}

std::string tiles_apart(const Lengths& lengths, const TileShape& shape, std::int64_t q_tiles,
                        std::int64_t kv_tiles) {
  const std::int64_t q = divide_up(lengths.q, shape.q);
  const std::int64_t kv = divide_up(lengths.kv, shape.kv);
  if (q == q_tiles && kv == kv_tiles) return "";
  return "the lengths make " + std::to_string(kv) + " KV and " + std::to_string(q) +
         " Q tiles, not " + std::to_string(kv_tiles) + " and " + std::to_string(q_tiles);
}

}  // namespace stagger
