// FlashInfer's block-sparse rows. With a mask of each block every pair of tokens is known: that is
// a mask of tokens, of tiles of any size. Without one it is a mask of tiles, all of them full.

#include "core/checked.hpp"
#include "core/error.hpp"
#include "core/formats/import_context.hpp"
#include "core/formats/slices.hpp"
#include "core/index.hpp"
#include "core/limits.hpp"

#include <algorithm>
#include <span>

namespace stagger::formats {
namespace {

/// Blocks by row of queries, in the order of the file.
struct BlockRows {
  std::span<const std::int64_t> indptr;
  std::span<const std::int64_t> indices;
  const Tensor* mask = nullptr;         ///< [blocks, R, C]; nullptr: every block is full
  TileShape block = {.q = 0, .kv = 0};  ///< 0: the file does not say
  Lengths lengths = {};                 ///< likewise
  std::int64_t q_tiles = 0;
  std::int64_t kv_tiles = 0;
};

/// A size of that name; 0 if it is missing.
std::int64_t size_of(const Import& import, const char* name) {
  const auto value = import.numbers(name, 1);
  if (!value) return 0;
  if (value->front() < 1 || value->front() > kMaxTokens) {
    import.bundle.reject(std::string(name) + " is " + std::to_string(value->front()));
  }
  return value->front();
}

void check_pointers(const Bundle& bundle, const BlockRows& rows) {
  if (!rows.indptr.empty() && rows.indptr.front() == 0 &&
      rows.indptr.back() == std::ssize(rows.indices) && std::ranges::is_sorted(rows.indptr)) {
    return;
  }
  bundle.reject("indptr goes upwards from 0 to the " + std::to_string(rows.indices.size()) +
                " entries of indices");
}

/// The blocks' own masks, whose shape says the size of a block too.
void find_mask(const Bundle& bundle, BlockRows& rows) {
  rows.mask = bundle.find("mask");
  if (rows.mask == nullptr) {
    if (bundle.has("packed_mask")) {
      bundle.reject("packed_mask is not read: save mask [" + std::to_string(rows.indices.size()) +
                    ",R,C], of which it was made");
    }
    return;
  }
  const std::vector<std::int64_t>& shape = rows.mask->shape;
  const auto fits = [](std::int64_t own, std::int64_t said) {
    return own > 0 && own <= kMaxTokens && (said == 0 || own == said);
  };
  if (shape.size() != 3 || shape[0] != std::ssize(rows.indices) || !fits(shape[1], rows.block.q) ||
      !fits(shape[2], rows.block.kv)) {
    bundle.reject("mask has a shape of " + shape_words(shape) + ", not [" +
                  std::to_string(rows.indices.size()) + ",R,C]");
  }
  rows.block = {.q = shape[1], .kv = shape[2]};
}

/// A number of blocks from tokens, or from the largest column.
std::int64_t columns_of(const BlockRows& rows) {
  if (rows.lengths.kv > 0) return divide_up(rows.lengths.kv, rows.block.kv);
  std::int64_t columns = 0;
  for (const std::int64_t index : rows.indices)
    columns = std::max(columns, index < kMaxTiles ? index + 1 : 0);
  return columns;
}

BlockRows rows_of(const Import& import) {
  const Bundle& bundle = import.bundle;
  BlockRows rows{.indptr = bundle.at("indptr").elements, .indices = bundle.at("indices").elements};
  rows.block = {.q = size_of(import, "R"), .kv = size_of(import, "C")};
  check_pointers(bundle, rows);
  find_mask(bundle, rows);
  const Lengths tokens = {size_of(import, "M"), size_of(import, "N")};
  if (rows.block.q > 0 && rows.block.kv > 0) rows.lengths = tokens;
  rows.q_tiles = std::ssize(rows.indptr) - 1;
  rows.kv_tiles = columns_of(rows);
  check_grid_size(bundle, rows.kv_tiles, rows.q_tiles);
  return rows;
}

/// The grid of the blocks that are there, each of them full.
TileGrid grid_of(const Bundle& bundle, const BlockRows& rows) {
  std::vector<TileKind> kinds(at(rows.kv_tiles * rows.q_tiles), TileKind::empty);
  for (std::int64_t q = 0; q < rows.q_tiles; ++q) {
    for (std::int64_t place = rows.indptr[at(q)]; place < rows.indptr[at(q + 1)]; ++place) {
      const std::int64_t kv = rows.indices[at(place)];
      if (kv < 0 || kv >= rows.kv_tiles) {
        bundle.reject("indices[" + std::to_string(place) + "] = " + std::to_string(kv) +
                      " is no block of keys; there are " + std::to_string(rows.kv_tiles));
      }
      TileKind& tile = kinds[at(kv * rows.q_tiles + q)];
      if (tile != TileKind::empty) {
        bundle.reject("indices[" + std::to_string(place) + "]: block row " + std::to_string(q) +
                      " has column " + std::to_string(kv) + " twice");
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
      if (rows.mask->elements[at(pairs + key)] != 0) ranges.add({first + key, first + key + 1});
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

/// The size of what has masks of its own: where M and N are missing, that of whole blocks.
void fill_lengths(const Bundle& bundle, BlockRows& rows) {
  const Lengths whole = {rows.q_tiles * rows.block.q, rows.kv_tiles * rows.block.kv};
  if (rows.lengths.q == 0) rows.lengths.q = whole.q;
  if (rows.lengths.kv == 0) rows.lengths.kv = whole.kv;
  if (rows.lengths.q > kMaxTokens || rows.lengths.kv > kMaxTokens) {
    throw Error(ErrorKind::limit,
                bundle.source + ": more than " + std::to_string(kMaxTokens) + " tokens");
  }
  if (divide_up(rows.lengths.q, rows.block.q) != rows.q_tiles) {
    bundle.reject("M " + std::to_string(rows.lengths.q) + " is no " + std::to_string(rows.q_tiles) +
                  " rows of " + std::to_string(rows.block.q) + " tokens");
  }
}

}  // namespace

ImportedMask read_bsr(Import& import) {
  BlockRows rows = rows_of(import);
  TileGrid grid = grid_of(import.bundle, rows);
  import.understood("block rows are Q tiles, one mask for all heads");
  if (rows.mask == nullptr) {
    import.understood("no mask of its own: every block is full");
    return import.tiled(
        {}, [&](std::int64_t) { return grid; }, rows.block, rows.lengths);
  }
  fill_lengths(import.bundle, rows);
  import.understood("blocks of " + std::to_string(rows.block.kv) + " keys x " +
                    std::to_string(rows.block.q) + " queries, and of each the pairs of its mask");
  ImportedMask imported = import.of_tokens(mask_of_pairs(rows), rows.lengths);
  if (imported.shape.q == 0) imported.shape.q = rows.block.q;
  if (imported.shape.kv == 0) imported.shape.kv = rows.block.kv;
  return imported;
}

}  // namespace stagger::formats
