#pragma once

#include "core/problem.hpp"
#include "core/token_mask.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace stagger::gpu::cuda {

/// Queries of its tile that see a key, [begin, end), as the portable kernel is told of tiles in
/// ranges.
struct SeenQueries {
  std::int32_t begin = 0;
  std::int32_t end = 0;
};

/// Finds by key the queries of a tile that see it, both counted from the tile's first; nothing if
/// some key is seen by several ranges of queries. O(keys, and of each query its ranges of keys).
[[nodiscard]] std::optional<std::vector<SeenQueries>> queries_by_key(const Problem& problem,
                                                                     const TokenMask& mask,
                                                                     KvTile kv, QTile q);

/// The tiles of a head of which a kernel has to hide something: partial ones, and those that the
/// last KV tile has beyond the sequence. First those of which every key is seen by one range of
/// queries at most, which are told by their ranges, then the others, which are told by a bit for
/// each pair of tokens; both by (kv, q), row-major.
struct MaskedTiles {
  std::vector<std::pair<KvTile, QTile>> tiles = {};
  std::int64_t in_ranges = 0;  ///< of `tiles`: places below this one

  [[nodiscard]] std::span<const std::pair<KvTile, QTile>> ranges() const {
    return std::span(tiles).first(at(in_ranges));
  }
  [[nodiscard]] std::span<const std::pair<KvTile, QTile>> bits() const {
    return std::span(tiles).subspan(at(in_ranges));
  }
};
[[nodiscard]] MaskedTiles masked_tiles(const Problem& problem, const TokenMask& mask);

/// Says why no kernel runs a problem: its bits of pairs would take more than kMaxBitBytes. Empty
/// if they do not. Throws Error{unsupported} if heads have masks of their own.
[[nodiscard]] std::string bits_refusal(const Problem& problem);

/// Calls visit(query, keys) for each range of a tile's keys that a query of it sees, both counted
/// from the tile's first; queries upwards.
template <class Visit>
void each_range(const Problem& problem, const TokenMask& mask, KvTile kv, QTile q, Visit visit) {
  const std::int64_t first = kv.value * problem.shape.kv;
  const std::int64_t begin = q.value * problem.shape.q;
  const std::int64_t end = std::min(begin + problem.shape.q, problem.lengths.q);
  for (std::int64_t query = begin; query < end; ++query) {
    mask.each_range(query, kv, [&](const KeyRange& range) {
      visit(query - begin, KeyRange{range.begin - first, range.end - first});
    });
  }
}

/// What the portable kernel is told of the masked tiles, which are alike in every head. A tile of
/// it has as many rows and columns as the longest one has queries and keys.
struct PortableMask {
  std::int32_t in_ranges = 0;             ///< tiles, as MaskedTiles says
  std::int32_t words = 0;                 ///< of a row of bits
  std::vector<SeenQueries> queries = {};  ///< by (tile in ranges, key in it)
  std::vector<std::uint32_t> bits = {};   ///< by (other tile, query in it, key / 32): bit key % 32
};
/// Throws Error{limit} where there is a bits_refusal.
[[nodiscard]] PortableMask portable_mask(const Problem& problem, const TokenMask& mask);

}  // namespace stagger::gpu::cuda
