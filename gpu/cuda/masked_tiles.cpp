#include "gpu/cuda/masked_tiles.hpp"

#include "core/error.hpp"
#include "core/limits.hpp"

#include <algorithm>

namespace stagger::gpu::cuda {
namespace {

constexpr std::int64_t kWordBits = 32;

/// Counts the queries and the keys of the longest tile, and the words of a query's bits.
std::int64_t rows_of_tile(const Problem& problem) {
  return std::min(problem.shape.q, problem.lengths.q);
}
std::int64_t columns_of_tile(const Problem& problem) {
  return std::min(problem.shape.kv, problem.lengths.kv);
}
std::int64_t words_of_row(const Problem& problem) {
  return (columns_of_tile(problem) + kWordBits - 1) / kWordBits;
}

/// Calls visit(key) for the keys in some of `ranges` and in none of `others`, both sorted.
template <class Visit>
void each_other(const std::vector<KeyRange>& ranges, const std::vector<KeyRange>& others,
                Visit visit) {
  auto other = others.begin();
  for (const KeyRange& range : ranges) {
    std::int64_t key = range.begin;
    while (key < range.end) {
      while (other != others.end() && other->end <= key)
        ++other;
      const bool ends = other == others.end() || other->begin >= range.end;
      const std::int64_t end = ends ? range.end : other->begin;
      for (; key < end; ++key)
        visit(key);
      if (!ends) key = other->end;
    }
  }
}

}  // namespace

std::optional<std::vector<SeenQueries>> queries_by_key(const Problem& problem,
                                                       const TokenMask& mask, KvTile kv, QTile q) {
  const std::int64_t first_key = kv.value * problem.shape.kv;
  const std::int64_t first = q.value * problem.shape.q;
  const std::int64_t rows = std::min(problem.shape.q, problem.lengths.q - first);
  std::vector<SeenQueries> queries(at(columns_of_tile(problem)));
  // What changes from a query to the next: keys that it sees first, and no more.
  std::vector<KeyRange> before;
  std::vector<KeyRange> now;
  bool is_split = false;
  for (std::int64_t row = 0; row <= rows && !is_split; ++row) {
    now.clear();
    if (row < rows)
      mask.each_range(first + row, kv, [&](const KeyRange& range) { now.push_back(range); });
    each_other(now, before, [&](std::int64_t key) {
      SeenQueries& seen = queries[at(key - first_key)];
      is_split = is_split || seen.end > 0;
      seen.begin = static_cast<std::int32_t>(row);
    });
    each_other(before, now, [&](std::int64_t key) {
      queries[at(key - first_key)].end = static_cast<std::int32_t>(row);
    });
    std::swap(before, now);
  }
  if (is_split) return std::nullopt;
  return queries;
}

MaskedTiles masked_tiles(const Problem& problem, const TokenMask& mask) {
  const TileGrid& grid = problem.common_grid();
  // Of a block-sparse mask TokenMask knows triangles alone, whose keys are seen by one range.
  const bool may_split = problem.mask.family->tiles == nullptr;
  MaskedTiles masked;
  std::vector<std::pair<KvTile, QTile>> in_bits;
  for (KvTile kv{0}; kv.value < grid.kv_tiles(); ++kv) {
    const bool ragged = (kv.value + 1) * problem.shape.kv > problem.lengths.kv;
    for (QTile q{0}; q.value < grid.q_tiles(); ++q) {
      const TileKind kind = grid.kind(kv, q);
      if (kind == TileKind::empty || (kind == TileKind::full && !ragged)) continue;
      const bool is_split = may_split && !queries_by_key(problem, mask, kv, q);
      (is_split ? in_bits : masked.tiles).push_back({kv, q});
    }
  }
  masked.in_ranges = std::ssize(masked.tiles);
  masked.tiles.insert(masked.tiles.end(), in_bits.begin(), in_bits.end());
  return masked;
}

std::string bits_refusal(const Problem& problem) {
  const std::int64_t tiles = std::ssize(masked_tiles(problem, TokenMask(problem)).bits());
  const std::int64_t bytes = rows_of_tile(problem) * words_of_row(problem) * (kWordBits / 8);
  if (tiles == 0 || tiles <= kMaxBitBytes / bytes) return "";
  return "of " + std::to_string(tiles) +
         " tiles a key is seen by several ranges of queries, so that a kernel needs " +
         std::to_string(bytes) + " bytes of bits for each; the limit is " +
         std::to_string(kMaxBitBytes >> 20) + " MiB: run it on the CPU";
}

PortableMask portable_mask(const Problem& problem, const TokenMask& mask) {
  const std::string refusal = bits_refusal(problem);
  if (!refusal.empty()) throw Error(ErrorKind::limit, refusal);
  const MaskedTiles masked = masked_tiles(problem, mask);
  const std::int64_t rows = rows_of_tile(problem);
  const std::int64_t words = words_of_row(problem);
  PortableMask result{.in_ranges = static_cast<std::int32_t>(masked.in_ranges),
                      .words = static_cast<std::int32_t>(words)};
  result.queries.reserve(at(masked.in_ranges * columns_of_tile(problem)));
  for (const auto& [kv, q] : masked.ranges()) {
    const auto queries = queries_by_key(problem, mask, kv, q);
    result.queries.insert(result.queries.end(), queries->begin(), queries->end());
  }
  result.bits.resize(masked.bits().size() * at(rows * words));
  std::int64_t row = 0;
  for (const auto& tile : masked.bits()) {
    const auto set = [&](std::int64_t query, const KeyRange& keys) {
      for (std::int64_t key = keys.begin; key < keys.end; ++key) {
        result.bits[at((row + query) * words + key / kWordBits)] |= std::uint32_t{1}
                                                                    << key % kWordBits;
      }
    };
    each_range(problem, mask, tile.first, tile.second, set);
    row += rows;
  }
  return result;
}

}  // namespace stagger::gpu::cuda
