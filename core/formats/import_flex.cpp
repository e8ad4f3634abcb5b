// FlexAttention's BlockMask, by the names of its attributes: rows of Q tiles that list KV tiles,
// and the transposes, which only newer or full masks have. Nothing is read by position: as_tuple()
// had 13 fields, and has 17.

#include "core/checked.hpp"
#include "core/formats/import_context.hpp"
#include "core/formats/tile_lists.hpp"
#include "core/limits.hpp"

#include <optional>

namespace stagger::formats {
namespace {

/// A pair of lists of one direction: `kv_num_blocks` and `full_kv_num_blocks`, or `q_...`.
struct Lists {
  std::optional<TileList> partial;
  std::optional<TileList> full;

  [[nodiscard]] TileList* full_list() { return full ? &*full : nullptr; }
  [[nodiscard]] const TileList* full_list() const { return full ? &*full : nullptr; }
  [[nodiscard]] std::int64_t width() const {
    return std::max(partial->width(), full ? full->width() : 0);
  }
  [[nodiscard]] std::int64_t columns() const {
    return std::max(partial->columns(), full ? full->columns() : 0);
  }
};

Lists lists_of(const Bundle& bundle, const std::string& side) {
  Lists lists;
  lists.partial.emplace(bundle, side + "_num_blocks", side + "_indices");
  const std::string full = "full_" + side;
  if (bundle.has(full + "_num_blocks") != bundle.has(full + "_indices")) {
    bundle.reject(full + "_num_blocks and " + full + "_indices are there both or neither");
  }
  if (!bundle.has(full + "_num_blocks")) return lists;
  lists.full.emplace(bundle, full + "_num_blocks", full + "_indices");
  if (lists.full->rows() != lists.partial->rows()) {
    bundle.reject(full + "_num_blocks is of another shape than " + side + "_num_blocks");
  }
  return lists;
}

/// Tokens of a side, and its tiles.
struct Side {
  std::int64_t tokens = 0;  ///< 0: the file does not say
  std::int64_t tiles = 0;
};

/// The side of the rows: a mask that was cut keeps its old length.
Side side_of_rows(Import& import, const char* what, std::int64_t rows, std::int64_t tokens,
                  std::int64_t block) {
  if (tokens == 0 || block == 0 || divide_up(tokens, block) == rows) return {tokens, rows};
  import.understood("seq_lengths say " + std::to_string(tokens) + " " + what + ", and there are " +
                    std::to_string(rows) + " rows of " + std::to_string(block) +
                    ": the rows count (a BlockMask that was cut keeps its old length)");
  return {0, rows};
}

/// The transposed lists, if they are there beside the others.
std::optional<Lists> transposed_lists(const Bundle& bundle) {
  if (!bundle.has("q_num_blocks") || !bundle.has("kv_num_blocks")) return std::nullopt;
  return lists_of(bundle, "q");
}

/// The side that the ids count, of so many tokens, or, where the file does not say, tiles.
Side side_of_ids(const Lists& lists, const std::optional<Lists>& transposed, std::int64_t tokens,
                 std::int64_t block, std::int64_t asked) {
  OtherSide side{.ids = lists.columns(), .room = lists.width(), .asked = asked};
  if (transposed) side.transposed = transposed->partial->rows();
  if (tokens == 0 || block == 0) return {tokens, side.tiles()};
  const std::int64_t tiles = divide_up(tokens, block);
  if (side.transposed.value_or(tiles) != tiles) {
    lists.partial->bundle().reject("q_num_blocks has " + std::to_string(*side.transposed) +
                                   " rows for " + std::to_string(tiles) + " KV tiles");
  }
  return {tokens, tiles};
}

/// Whether a tile of the last row, or of that column, is listed full; column -1 is none.
bool is_full_in(const Lists& lists, bool last_row, std::int64_t column) {
  if (!lists.full) return false;
  for (std::int64_t mask = 0; mask < lists.full->masks().count(); ++mask) {
    for (std::int64_t row = 0; row < lists.full->rows(); ++row) {
      const bool is_last = row + 1 == lists.full->rows();
      for (const std::int64_t id : lists.full->ids(mask, row))
        if ((last_row && is_last) || id == column) return true;
    }
  }
  return false;
}

/// By which rule a tile is full that reaches beyond the last token, of which a side may have one.
void say_ragged(Import& import, const Lists& lists, bool row_is_ragged, bool id_is_ragged,
                std::int64_t columns) {
  const bool is_full = is_full_in(lists, row_is_ragged, id_is_ragged ? columns - 1 : -1);
  import.understood(is_full ? "ragged rule in-bounds: a tile that reaches beyond the last token is "
                              "listed full"
                            : "ragged rule flex: a tile beyond the last token is never full");
}

/// They must say the same.
void compare(const Bundle& bundle, const TileGrid& grid, std::int64_t mask, const Lists& lists) {
  const TileGrid transposed =
      grid_of(&*lists.partial, lists.full_list(), mask, false, grid.q_tiles());
  if (const auto tile = difference(grid, transposed)) {
    bundle.reject("q_indices are not the transpose of kv_indices: tile " + *tile +
                  " is another in them");
  }
}

void say_classes(Import& import, const Lists& lists) {
  if (lists.full) return;
  import.understood("no full lists (separate_full_blocks=False): every live tile is partial");
  import.lost("which of the live tiles are full");
}

}  // namespace

ImportedMask read_flex(Import& import) {
  const Bundle& bundle = import.bundle;
  const bool by_q = bundle.has("kv_num_blocks");
  const TileShape shape = import.block_size("BLOCK_SIZE");
  const bool block = shape.q > 0;
  const auto lengths = import.numbers("seq_lengths", 2);
  if (lengths && (lengths->front() < 0 || lengths->front() > kMaxTokens || lengths->back() < 0 ||
                  lengths->back() > kMaxTokens)) {
    bundle.reject("seq_lengths are " + std::to_string(lengths->front()) + ", " +
                  std::to_string(lengths->back()));
  }
  if (lengths && !block) import.understood("BLOCK_SIZE is missing: seq_lengths are not heeded");
  const Lengths tokens = lengths && block ? Lengths{lengths->front(), lengths->back()} : Lengths{};
  Lists lists = lists_of(bundle, by_q ? "kv" : "q");
  const Side rows = side_of_rows(import, by_q ? "queries" : "keys", lists.partial->rows(),
                                 by_q ? tokens.q : tokens.kv, by_q ? shape.q : shape.kv);
  const Lengths asked = import.asked_blocks(shape);
  std::optional<Lists> transposed = transposed_lists(bundle);
  const Side ids = side_of_ids(lists, transposed, by_q ? tokens.kv : tokens.q,
                               by_q ? shape.kv : shape.q, by_q ? asked.kv : asked.q);
  if (!by_q) import.understood("of the transposed lists alone (q_indices)");
  if (!lengths && (asked.q == 0 || asked.kv == 0)) {
    import.understood("no seq_lengths: as long as its tiles");
  }
  say_classes(import, lists);
  const Lengths own = by_q ? Lengths{rows.tokens, ids.tokens} : Lengths{ids.tokens, rows.tokens};
  const Lengths cut = import.ragged_tokens(own, shape);
  say_ragged(import, lists, (by_q ? cut.q : cut.kv) > 0, (by_q ? cut.kv : cut.q) > 0, ids.tiles);
  import.lost("mask_mod: which pairs of a partial tile attend");
  if (bundle.has("dq_write_order")) import.lost("dq_write_order: `stagger lint` reads that");
  if (bundle.has("dq_kv_order")) import.lost("dq_kv_order: in which order KV tiles are launched");
  spread(bundle, {&*lists.partial, lists.full_list(), transposed ? &*transposed->partial : nullptr,
                  transposed ? transposed->full_list() : nullptr});
  const auto grid = [&](std::int64_t mask) {
    TileGrid tiles = grid_of(&*lists.partial, lists.full_list(), mask, by_q, ids.tiles);
    if (transposed) compare(bundle, tiles, mask, *transposed);
    return tiles;
  };
  return import.tiled(lists.partial->masks(), grid, shape, own);
}

}  // namespace stagger::formats
