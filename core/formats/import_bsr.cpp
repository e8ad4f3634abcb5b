// FlashInfer's block-sparse rows. With a mask of each block every pair of tokens is known: that is
// a mask of tokens, of tiles of any size. Without one it is a mask of tiles, all of them full.

#include "core/checked.hpp"
#include "core/error.hpp"
#include "core/formats/block_pairs.hpp"
#include "core/formats/import_context.hpp"
#include "core/formats/slices.hpp"
#include "core/index.hpp"
#include "core/limits.hpp"

#include <algorithm>
#include <span>
#include <utility>

namespace stagger::formats {
namespace {

/// Blocks by row of queries, in the order of the file: one mask's, or of every KV head its own.
struct BlockRows {
  std::string prefix = {};  ///< of the names `indptr` and `indices`; newer files have `block_`
  Leading leading = {};     ///< of the pointers
  std::span<const std::int64_t> indptr;
  std::span<const std::int64_t> indices;
  std::optional<std::vector<std::int64_t>> pairs = {};  ///< [blocks, R, C]; none: all are full
  TileShape block = {.q = 0, .kv = 0};                  ///< 0: the file does not say
  Lengths lengths = {};                                 ///< likewise
  std::int64_t q_tiles = 0;
  std::int64_t kv_tiles = 0;

  /// The pointers of a mask: a block row's places in `indices` go from one to the next.
  [[nodiscard]] std::span<const std::int64_t> pointers(std::int64_t mask) const {
    return indptr.subspan(at(mask * (q_tiles + 1)), at(q_tiles + 1));
  }
};

/// The size under one of its two names; 0 if it is missing.
std::int64_t size_of(const Import& import, const char* name, const char* newer) {
  const bool is_newer = !import.numbers(name);
  const auto value = import.numbers(is_newer ? newer : name, 1);
  if (!value) return 0;
  if (value->front() < 1 || value->front() > kMaxTokens) {
    import.bundle.reject(std::string(is_newer ? newer : name) + " is " +
                         std::to_string(value->front()));
  }
  return value->front();
}

/// The pointers of one mask go through all entries; those of a head have entries of their own.
void check_pointers(const Bundle& bundle, const BlockRows& rows) {
  const std::int64_t entries = std::ssize(rows.indices);
  for (std::int64_t mask = 0; mask < rows.leading.masks(); ++mask) {
    const auto own = rows.pointers(mask);
    const bool fits = rows.leading.masks() == 1 ? own.front() == 0 && own.back() == entries
                                                : own.front() >= 0 && own.back() <= entries;
    if (fits && std::ranges::is_sorted(own)) continue;
    bundle.reject(rows.prefix + "indptr goes upwards from 0 to the " + std::to_string(entries) +
                  " entries of " + rows.prefix + "indices");
  }
}

/// A number of blocks from the file's tokens, or from the request's and the largest column.
std::int64_t columns_of(const Import& import, const BlockRows& rows) {
  if (rows.lengths.kv > 0) return divide_up(rows.lengths.kv, rows.block.kv);
  std::int64_t columns = import.asked_blocks(rows.block).kv;
  for (const std::int64_t index : rows.indices)
    columns = std::max(columns, index < kMaxTiles ? index + 1 : 0);
  return columns;
}

void find_pointers(const Bundle& bundle, BlockRows& rows) {
  if (bundle.has("block_indptr")) rows.prefix = "block_";
  const std::string name = rows.prefix + "indptr";
  rows.indptr = bundle.at(name).elements;
  rows.indices = bundle.at(rows.prefix + "indices").elements;
  rows.leading = leading_of(bundle, name, 1);
  rows.q_tiles = rows.leading.inner.front() - 1;
  if (rows.q_tiles < 0) bundle.reject(name + " is empty");
  check_pointers(bundle, rows);
}

BlockRows rows_of(const Import& import) {
  const Bundle& bundle = import.bundle;
  BlockRows rows;
  find_pointers(bundle, rows);
  if (bundle.has("kv_valid_bits")) {
    bundle.reject("kv_valid_bits is not read: take the keys that are none out of the blocks");
  }
  rows.block = {.q = size_of(import, "R", "q_block_size"),
                .kv = size_of(import, "C", "kv_block_size")};
  if (rows.leading.masks() == 1) {
    rows.pairs = pairs_of_blocks(bundle, rows.indptr, std::ssize(rows.indices), rows.block);
  } else if (bundle.has("mask") || bundle.has("packed_mask")) {
    bundle.reject("a mask of each block is of one mask for all heads");
  }
  const Lengths tokens = {size_of(import, "M", "seq_len_q"), size_of(import, "N", "seq_len_kv")};
  if (rows.block.q > 0 && rows.block.kv > 0) rows.lengths = tokens;
  rows.kv_tiles = columns_of(import, rows);
  check_grid_size(bundle, rows.kv_tiles, rows.q_tiles);
  return rows;
}

/// The grid of the blocks that a mask has, each of them full.
TileGrid grid_of(const Bundle& bundle, const BlockRows& rows, std::int64_t mask) {
  std::vector<TileKind> kinds(at(rows.kv_tiles * rows.q_tiles), TileKind::empty);
  const auto pointers = rows.pointers(mask);
  for (std::int64_t q = 0; q < rows.q_tiles; ++q) {
    for (std::int64_t place = pointers[at(q)]; place < pointers[at(q + 1)]; ++place) {
      const std::int64_t kv = rows.indices[at(place)];
      if (kv < 0 || kv >= rows.kv_tiles) {
        bundle.reject(rows.prefix + "indices[" + std::to_string(place) +
                      "] = " + std::to_string(kv) + " is no block of keys; there are " +
                      std::to_string(rows.kv_tiles));
      }
      TileKind& tile = kinds[at(kv * rows.q_tiles + q)];
      if (tile != TileKind::empty) {
        bundle.reject(rows.prefix + "indices[" + std::to_string(place) + "]: block row " +
                      std::to_string(q) + " has column " + std::to_string(kv) + " twice");
      }
      tile = TileKind::full;
    }
  }
  return {static_cast<std::int32_t>(rows.kv_tiles), static_cast<std::int32_t>(rows.q_tiles),
          std::move(kinds)};
}

/// The keys that a query of a block row sees: `places` are the row's blocks by column.
void add_query(const BlockRows& rows, std::span<const std::int64_t> places, std::int64_t row,
               KeyRanges& ranges) {
  const std::int64_t keys = rows.block.kv;
  for (const std::int64_t place : places) {
    const std::int64_t first = rows.indices[at(place)] * keys;
    const std::int64_t pairs = (place * rows.block.q + row) * keys;
    for (std::int64_t key = 0; key < std::min(keys, rows.lengths.kv - first); ++key) {
      if ((*rows.pairs)[at(pairs + key)] != 0) ranges.add({first + key, first + key + 1});
    }
  }
  ranges.end_query();
}

/// Every pair of tokens of the blocks' own masks.
Mask mask_of_pairs(const BlockRows& rows) {
  KeyRanges ranges;
  for (std::int64_t q = 0; q < rows.q_tiles; ++q) {
    std::vector<std::int64_t> places;
    for (std::int64_t place = rows.indptr[at(q)]; place < rows.indptr[at(q + 1)]; ++place)
      places.push_back(place);
    std::ranges::sort(places, {}, [&](std::int64_t place) { return rows.indices[at(place)]; });
    const std::int64_t first = q * rows.block.q;
    for (std::int64_t row = 0; row < std::min(rows.block.q, rows.lengths.q - first); ++row)
      add_query(rows, places, row, ranges);
  }
  Slices slices = slices_of(ranges);
  return make_mask("slices", {{"q", std::move(slices.q)},
                              {"kv", std::move(slices.kv)},
                              {"types", std::move(slices.types)}});
}

/// The size of what has masks of its own: where M and N are missing, what is asked for, or that of
/// whole blocks.
void fill_lengths(const Import& import, BlockRows& rows) {
  const Bundle& bundle = import.bundle;
  const bool says_q = rows.lengths.q > 0;
  const auto fill = [](std::int64_t& tokens, std::int64_t asked, std::int64_t whole) {
    if (tokens == 0) tokens = asked > 0 ? asked : whole;
  };
  fill(rows.lengths.q, import.request.lengths.q, rows.q_tiles * rows.block.q);
  fill(rows.lengths.kv, import.request.lengths.kv, rows.kv_tiles * rows.block.kv);
  if (rows.lengths.q > kMaxTokens || rows.lengths.kv > kMaxTokens) {
    throw Error(ErrorKind::limit,
                bundle.source + ": more than " + std::to_string(kMaxTokens) + " tokens");
  }
  if (says_q && divide_up(rows.lengths.q, rows.block.q) != rows.q_tiles) {
    bundle.reject("M " + std::to_string(rows.lengths.q) + " is no " + std::to_string(rows.q_tiles) +
                  " rows of " + std::to_string(rows.block.q) + " tokens");
  }
  check_lengths(rows.lengths, rows.block, rows.q_tiles, rows.kv_tiles);
}

}  // namespace

ImportedMask read_bsr(Import& import) {
  const Bundle& bundle = import.bundle;
  BlockRows rows = rows_of(import);
  const bool several = rows.leading.masks() > 1;
  import.understood(std::string("block rows are Q tiles") +
                    (several ? "" : ", one mask for all heads"));
  if (!rows.pairs) {
    import.understood("no mask of its own: every block is full");
    const MasksOfFile masks{rows.leading.batches, rows.leading.heads, true};
    ImportedMask imported = import.tiled(
        masks, [&](std::int64_t mask) { return grid_of(bundle, rows, mask); }, rows.block,
        rows.lengths);
    import.compose_causal(imported);
    return imported;
  }
  static_cast<void>(grid_of(bundle, rows, 0));  // no block is beyond the keys, or there twice
  fill_lengths(import, rows);
  import.understood("blocks of " + std::to_string(rows.block.kv) + " keys x " +
                    std::to_string(rows.block.q) + " queries, and of each the pairs of its mask");
  if (import.causal_of_file().value_or(false)) {
    import.understood(
        "the file says causal, which is not heeded: its kernel takes the pairs of the mask alone");
  }
  if (!bundle.has("mask")) {
    import.understood(
        "packed_mask as its kernel reads it: a block row begins a byte; in it "
        "queries, of each the blocks, of each the keys; a byte's low bits first");
  }
  ImportedMask imported = import.of_tokens(mask_of_pairs(rows), rows.lengths);
  if (imported.shape.q == 0) imported.shape.q = rows.block.q;
  if (imported.shape.kv == 0) imported.shape.kv = rows.block.kv;
  return imported;
}

}  // namespace stagger::formats
