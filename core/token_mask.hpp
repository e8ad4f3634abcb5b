#pragma once

#include "core/problem.hpp"
#include "core/tiling.hpp"

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace stagger {

/// A head's mask at token level: which keys each query sees.
///
/// A token-level mask says so itself. A block-sparse mask says only which tiles are partial; of
/// such a tile a query sees the keys whose place in the tile is not behind its own:
///
///     keys      0 1 2 3
///     query 0   x . . .        of a partial tile of a `tiles` or `csr` mask; never empty, and full
///     query 1   x x . .        if the tile is one key wide
class TokenMask {
 public:
  /// The mask that all heads have. Throws Error{unsupported} if they have masks of their own.
  explicit TokenMask(const Problem& problem);
  TokenMask(const Problem& problem, Head head);

  /// Calls `visit` for each range of the keys of one KV tile that a query sees, upwards. Requires
  /// both to exist. O(1) and the ranges, or O(log) of the query's ranges.
  template <class Visit>
  void each_range(std::int64_t query, KvTile kv, Visit visit) const;
  /// All keys that a query sees: ranges upwards, with keys between them that it does not see.
  /// O(ranges), or O(KV tiles) for a block-sparse mask.
  [[nodiscard]] std::vector<KeyRange> keys(std::int64_t query) const;
  [[nodiscard]] bool sees(std::int64_t query, std::int64_t key) const;
  /// Pairs of tokens that attend, of one head. O(queries x KV tiles).
  [[nodiscard]] std::int64_t pairs() const;

 private:
  Lengths lengths_;
  TileShape shape_;
  TileGrid grid_;
  KeyRanges rows_;  ///< by query; of none if the mask is block-sparse
};

/// The token-level masks of all heads: each of those that differ is made once.
class HeadMasks {
 public:
  explicit HeadMasks(const Problem& problem);

  [[nodiscard]] const TokenMask& of(Head head) const {
    return masks_[of_head_.empty() ? 0 : of_head_[head]];
  }
  /// The mask that all heads have. Throws Error{unsupported} if they have masks of their own.
  [[nodiscard]] const TokenMask& common() const;
  /// Pairs of tokens that attend, of so many heads, which are all. O(masks x queries x KV tiles).
  [[nodiscard]] std::int64_t pairs(std::int32_t heads) const;

 private:
  IndexVector<std::int64_t, TokenMask> masks_;
  IndexVector<Head, std::int32_t> of_head_;  ///< empty if there is one mask
};

/// Partial tiles of all heads whose pairs a mask of tiles, or one in a composition, does not say:
/// they are assumed to be as TokenMask has them. O(masks x tiles).
[[nodiscard]] std::int64_t assumed_tiles(const Problem& problem);

template <class Visit>
void TokenMask::each_range(std::int64_t query, KvTile kv, Visit visit) const {
  const std::int64_t begin = kv.value * shape_.kv;
  const std::int64_t end = std::min(begin + shape_.kv, lengths_.kv);
  const auto show = [&](const KeyRange& range) {
    if (range.begin < range.end) visit(range);
  };
  if (rows_.queries() == 0) {
    const QTile q{static_cast<std::int32_t>(query / shape_.q)};
    return show(keys_of_tile(grid_.kind(kv, q), query % shape_.q, begin, end));
  }
  const std::span<const KeyRange> row = rows_.of(query);
  auto range = row.begin();
  if (row.size() > 1) {
    range = std::ranges::upper_bound(row, begin, {}, &KeyRange::end);
  }
  for (; range != row.end() && range->begin < end; ++range)
    show({std::max(range->begin, begin), std::min(range->end, end)});
}

}  // namespace stagger
