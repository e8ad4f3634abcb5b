#pragma once

#include "core/problem.hpp"

#include <cstdint>
#include <vector>

namespace stagger {

/// A problem's mask at token level: which keys each query sees, the same in every head.
///
/// A token-level mask says so itself. A block-sparse mask says only which tiles are partial; of
/// such a tile a query sees the keys whose place in the tile is not behind its own:
///
///     keys      0 1 2 3
///     query 0   x . . .        of a partial tile of a `tiles` or `csr` mask; never empty, and full
///     query 1   x x . .        if the tile is one key wide
class TokenMask {
 public:
  explicit TokenMask(const Problem& problem);

  /// The keys of one KV tile that a query sees; begin == end if none. Requires both to exist.
  [[nodiscard]] KeyRange keys(std::int64_t query, KvTile kv) const;
  /// All keys that a query sees: ranges upwards, with keys between them that it does not see. One
  /// at most for a token-level mask. O(1), or O(KV tiles) for a block-sparse mask.
  [[nodiscard]] std::vector<KeyRange> keys(std::int64_t query) const;
  [[nodiscard]] bool sees(std::int64_t query, std::int64_t key) const;
  /// Pairs of tokens that attend, of one head. O(queries x KV tiles).
  [[nodiscard]] std::int64_t pairs() const;

 private:
  Lengths lengths_;
  TileShape shape_;
  TileGrid grid_;
  std::vector<KeyRange> rows_;  ///< one a query; empty if the mask is block-sparse
};

}  // namespace stagger
