#include "gpu/cuda/masked_tiles.hpp"

#include "core/error.hpp"
#include "core/limits.hpp"

#include <algorithm>

namespace stagger::gpu::cuda {
namespace {

constexpr std::int64_t kWordBits = 32;

/// Counts the words of a query's bits, and the queries of the longest Q tile.
std::int64_t words_of_row(const Problem& problem) {
  return (std::min(problem.shape.kv, problem.lengths.kv) + kWordBits - 1) / kWordBits;
}
std::int64_t rows_of_tile(const Problem& problem) {
  return std::min(problem.shape.q, problem.lengths.q);
}

}  // namespace

MaskedTiles masked_tiles(const Problem& problem) {
  const TileGrid& grid = problem.common_grid();
  const std::vector<bool> split = split_tiles(problem);
  MaskedTiles masked;
  std::vector<std::pair<KvTile, QTile>> in_bits;
  for (KvTile kv{0}; kv.value < grid.kv_tiles(); ++kv) {
    const bool ragged = (kv.value + 1) * problem.shape.kv > problem.lengths.kv;
    for (QTile q{0}; q.value < grid.q_tiles(); ++q) {
      const TileKind kind = grid.kind(kv, q);
      if (kind == TileKind::empty || (kind == TileKind::full && !ragged)) continue;
      const bool is_split =
          !split.empty() && split[at(std::int64_t{kv.value} * grid.q_tiles() + q.value)];
      (is_split ? in_bits : masked.tiles).push_back({kv, q});
    }
  }
  masked.in_ranges = std::ssize(masked.tiles);
  masked.tiles.insert(masked.tiles.end(), in_bits.begin(), in_bits.end());
  return masked;
}

std::string bits_refusal(const Problem& problem) {
  const std::vector<bool> split = split_tiles(problem);
  const std::int64_t tiles = std::count(split.begin(), split.end(), true);
  const std::int64_t bytes = rows_of_tile(problem) * words_of_row(problem) * (kWordBits / 8);
  if (tiles == 0 || tiles <= kMaxBitBytes / bytes) return "";
  return "of " + std::to_string(tiles) +
         " tiles a query sees several ranges of keys, so that a kernel needs " +
         std::to_string(bytes) + " bytes of bits for each; the limit is " +
         std::to_string(kMaxBitBytes >> 20) + " MiB: run it on the CPU";
}

PortableMask portable_mask(const Problem& problem, const TokenMask& mask) {
  const std::string refusal = bits_refusal(problem);
  if (!refusal.empty()) throw Error(ErrorKind::limit, refusal);
  const MaskedTiles masked = masked_tiles(problem);
  const std::int64_t rows = rows_of_tile(problem);
  const std::int64_t words = words_of_row(problem);
  PortableMask result{.in_ranges = static_cast<std::int32_t>(masked.in_ranges),
                      .words = static_cast<std::int32_t>(words)};
  result.keys.reserve(at(masked.in_ranges * rows));
  for (const auto& [kv, q] : masked.ranges()) {
    const std::int64_t first = kv.value * problem.shape.kv;
    for (std::int64_t place = 0; place < rows; ++place) {
      const std::int64_t query = q.value * problem.shape.q + place;
      KeyRange seen{first, first};
      if (query < problem.lengths.q) seen = mask.keys(query, kv);
      result.keys.push_back({.begin = static_cast<std::int32_t>(seen.begin - first),
                             .end = static_cast<std::int32_t>(seen.end - first)});
    }
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
