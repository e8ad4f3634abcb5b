// Video Sparse Attention's lists of blocks of 64 x 64 tokens: those that a row of queries chose,
// and the transposes for the backward pass.

#include "core/formats/import_context.hpp"
#include "core/formats/tile_lists.hpp"
#include "core/index.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace stagger::formats {
namespace {

constexpr std::int64_t kVsaBlock = 64;  ///< tokens, as its kernels have them

/// The lists of one way, `q2k` or `k2q`, which are refused by halves; nullopt if there are none.
std::optional<TileList> vsa_list(const Bundle& bundle, const std::string& way) {
  const std::string counts = way + "_block_sparse_num";
  const std::string indices = way + "_block_sparse_index";
  if (!bundle.has(counts) && !bundle.has(indices)) return std::nullopt;
  return TileList(bundle, counts, indices);
}

/// Tokens of each KV block, if the file says.
std::optional<std::vector<std::int64_t>> vsa_sizes(const Import& import) {
  auto sizes = import.numbers("variable_block_sizes");
  if (!sizes) return sizes;
  const auto wrong =
      std::ranges::find_if(*sizes, [](std::int64_t size) { return size < 1 || size > kVsaBlock; });
  if (wrong != sizes->end()) {
    import.bundle.reject("variable_block_sizes[" + std::to_string(wrong - sizes->begin()) +
                         "] = " + std::to_string(*wrong) + ", not 1 to 64");
  }
  return sizes;
}

/// The grid with those of its live tiles partial whose keys are fewer than a block's.
TileGrid with_short_blocks(const TileGrid& grid, const std::vector<std::int64_t>& sizes) {
  std::vector<TileKind> kinds;
  for (KvTile kv{0}; kv.value < grid.kv_tiles(); ++kv) {
    for (QTile q{0}; q.value < grid.q_tiles(); ++q) {
      const bool cut = grid.live(kv, q) && sizes[at(kv)] < kVsaBlock;
      kinds.push_back(cut ? TileKind::partial : grid.kind(kv, q));
    }
  }
  return {grid.kv_tiles(), grid.q_tiles(), std::move(kinds)};
}

}  // namespace

ImportedMask read_vsa(Import& import) {
  const Bundle& bundle = import.bundle;
  std::optional<TileList> of_queries = vsa_list(bundle, "q2k");
  std::optional<TileList> others = vsa_list(bundle, "k2q");
  const bool by_q = of_queries.has_value();
  TileList lists = *std::exchange(by_q ? of_queries : others, std::nullopt);
  const auto sizes = vsa_sizes(import);
  constexpr TileShape kBlock = {.q = kVsaBlock, .kv = kVsaBlock};
  const Lengths asked = import.asked_blocks(kBlock);
  OtherSide side{.ids = lists.columns(), .room = lists.width(), .asked = by_q ? asked.kv : asked.q};
  if (others) side.transposed = others->rows();
  std::int64_t columns = side.tiles();
  if (sizes) {
    if (by_q && !others) columns = std::ssize(*sizes);
    const std::int64_t kv_tiles = by_q ? columns : lists.rows();
    if (std::ssize(*sizes) != kv_tiles) {
      bundle.reject("variable_block_sizes are " + std::to_string(sizes->size()) +
                    ", and there are " + std::to_string(kv_tiles) + " KV blocks");
    }
  }
  spread(bundle, {&lists, others ? &*others : nullptr});
  if (!by_q) import.understood("of the transposed lists alone (k2q)");
  const bool cut =
      sizes && std::ranges::any_of(*sizes, [](std::int64_t size) { return size < kVsaBlock; });
  import.understood(
      cut ? "every live tile is full, but partial in KV blocks of fewer than 64 tokens"
          : "every live tile is full");
  if (cut) import.lost("which tokens of a KV block are padding");
  const auto grid = [&](std::int64_t mask) {
    const TileGrid tiles = grid_of(nullptr, &lists, mask, by_q, columns);
    if (others) {
      const TileGrid transposed = grid_of(nullptr, &*others, mask, false, tiles.q_tiles());
      if (const auto tile = difference(tiles, transposed)) {
        bundle.reject(
            "k2q_block_sparse_index is not the transpose of q2k_block_sparse_index: tile " + *tile +
            " is in one of them");
      }
    }
    return sizes ? with_short_blocks(tiles, *sizes) : tiles;
  };
  return import.tiled(lists.masks(), grid, kBlock, {});
}

}  // namespace stagger::formats
