// The masks that are grids of tiles already.

#include "core/error.hpp"
#include "core/mask_rules.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace stagger {
namespace {

/// Marks the tiles of one of FlashAttention-4's two lists (`mask_block_*` or `full_block_*`).
void mark_csr(const Mask& mask, const std::string& list, TileKind kind, std::int32_t q_tiles,
              std::vector<TileKind>& kinds) {
  const auto& count = mask.integers(list + "_cnt");
  const auto& offset = mask.integers(list + "_offset");
  const auto& index = mask.integers(list + "_idx");
  const std::size_t kv_tiles = kinds.size() / at(std::max(q_tiles, 1));
  if (count.size() != kv_tiles || (offset.size() != kv_tiles && offset.size() != kv_tiles + 1)) {
    reject_mask("csr: " + list + "_cnt has " + std::to_string(count.size()) + " and " + list +
                "_offset " + std::to_string(offset.size()) + " entries for " +
                std::to_string(kv_tiles) + " KV tiles (offset may have one more)");
  }
  const auto size = static_cast<std::int64_t>(index.size());
  for (std::size_t kv = 0; kv < kv_tiles; ++kv) {
    if (offset[kv] < 0 || offset[kv] > size || count[kv] < 0 || count[kv] > size - offset[kv]) {
      reject_mask("csr: KV tile " + std::to_string(kv) + ": " + list + "_offset " +
                  std::to_string(offset[kv]) + " and _cnt " + std::to_string(count[kv]) +
                  " leave the " + std::to_string(size) + " entries of " + list + "_idx");
    }
    for (std::int64_t place = offset[kv]; place < offset[kv] + count[kv]; ++place) {
      const std::int64_t q = index[at(place)];
      if (q < 0 || q >= q_tiles) {
        reject_mask("csr: " + list + "_idx[" + std::to_string(place) + "] = " + std::to_string(q) +
                    " is no Q tile; there are " + std::to_string(q_tiles));
      }
      TileKind& tile = kinds[kv * at(q_tiles) + at(q)];
      if (tile != TileKind::empty) {
        reject_mask("csr: " + list + "_idx[" + std::to_string(place) + "]: tile (kv " +
                    std::to_string(kv) + ", q " + std::to_string(q) + ") is listed twice");
      }
      tile = kind;
    }
  }
}

}  // namespace

Lengths tiles_size(const Mask& mask) {
  const auto& rows = mask.strings("rows");
  return {rows.empty() ? 0 : static_cast<std::int64_t>(rows.front().size()),
          static_cast<std::int64_t>(rows.size())};
}

TileGrid tiles_grid(const Mask& mask, std::int32_t kv_tiles, std::int32_t q_tiles) {
  const auto& rows = mask.strings("rows");
  if (rows.size() != at(kv_tiles)) {
    reject_mask("tiles: " + std::to_string(rows.size()) + " rows for " + std::to_string(kv_tiles) +
                " KV tiles");
  }
  std::vector<TileKind> kinds;
  kinds.reserve(at(kv_tiles) * at(q_tiles));
  for (std::size_t kv = 0; kv < rows.size(); ++kv) {
    if (rows[kv].size() != at(q_tiles)) {
      reject_mask("tiles: rows[" + std::to_string(kv) + "] has " + std::to_string(rows[kv].size()) +
                  " tiles, not " + std::to_string(q_tiles));
    }
    for (const char tile : rows[kv]) {
      if (tile != 'f' && tile != 'p' && tile != '.') {
        reject_mask("tiles: rows[" + std::to_string(kv) + "]: unknown tile '" +
                    std::string(1, tile) + "'; known: f (full), p (partial), . (empty)");
      }
      kinds.push_back(static_cast<TileKind>(tile));
    }
  }
  return {kv_tiles, q_tiles, std::move(kinds)};
}

Lengths csr_size(const Mask& mask) {
  std::int64_t q_tiles = 0;
  for (const char* key : {"mask_block_idx", "full_block_idx"}) {
    for (const std::int64_t q : mask.integers(key))
      q_tiles = std::max(q_tiles, q + 1);
  }
  return {q_tiles, static_cast<std::int64_t>(mask.integers("mask_block_cnt").size())};
}

TileGrid csr_grid(const Mask& mask, std::int32_t kv_tiles, std::int32_t q_tiles) {
  std::vector<TileKind> kinds(at(kv_tiles) * at(q_tiles), TileKind::empty);
  mark_csr(mask, "mask_block", TileKind::partial, q_tiles, kinds);
  mark_csr(mask, "full_block", TileKind::full, q_tiles, kinds);
  return {kv_tiles, q_tiles, std::move(kinds)};
}

Mask tiles_mask(const TileGrid& grid) {
  std::vector<std::string> rows(at(grid.kv_tiles()));
  for (KvTile kv{0}; kv.value < grid.kv_tiles(); ++kv) {
    for (QTile q{0}; q.value < grid.q_tiles(); ++q)
      rows[at(kv)] += static_cast<char>(grid.kind(kv, q));
  }
  return make_mask("tiles", {{"rows", std::move(rows)}});
}

Mask tiles_mask(const HeadGrids& grids) {
  if (grids.all_alike()) return tiles_mask(grids.distinct().front());
  std::vector<Mask> masks;
  for (const TileGrid& grid : grids.distinct())
    masks.push_back(tiles_mask(grid));
  std::vector<std::int64_t> heads(grids.places().begin(), grids.places().end());
  return make_mask("heads", {{"of", std::move(masks)}, {"heads", std::move(heads)}});
}

}  // namespace stagger
