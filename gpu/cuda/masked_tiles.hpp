#pragma once

#include "core/problem.hpp"
#include "core/token_mask.hpp"

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace stagger::gpu::cuda {

/// The tiles of a head of which a kernel has to hide something: partial ones, and those that the
/// last KV tile has beyond the sequence. First those of which every query sees one range of keys at
/// most, which are told by their ranges, then the others, which are told by a bit for each pair of
/// tokens; both by (kv, q), row-major.
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
[[nodiscard]] MaskedTiles masked_tiles(const Problem& problem);

/// Says why no kernel runs a problem: its bits of pairs would take more than kMaxBitBytes. Empty
/// if they do not.
[[nodiscard]] std::string bits_refusal(const Problem& problem);

/// Calls visit(query, keys) for each range of a tile's keys that a query of it sees, both counted
/// from the tile's first.
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

/// Keys of its tile that a query sees, as the portable kernel is told of tiles in ranges.
struct SeenKeys {
  std::int32_t begin = 0;
  std::int32_t end = 0;
};

/// What the portable kernel is told of the masked tiles, which are alike in every head. A Q tile of
/// it has as many rows as the longest one has queries.
struct PortableMask {
  std::int32_t in_ranges = 0;            ///< tiles, as MaskedTiles says
  std::int32_t words = 0;                ///< of a row of bits
  std::vector<SeenKeys> keys = {};       ///< by (tile in ranges, query in it)
  std::vector<std::uint32_t> bits = {};  ///< by (other tile, query in it, key / 32): bit key % 32
};
/// Throws Error{limit} where there is a bits_refusal.
[[nodiscard]] PortableMask portable_mask(const Problem& problem, const TokenMask& mask);

}  // namespace stagger::gpu::cuda
