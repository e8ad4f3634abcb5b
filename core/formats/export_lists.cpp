// Masks as lists of tiles: FlexAttention's and FlashAttention-4's.

#include "core/error.hpp"
#include "core/formats/mask_export.hpp"
#include "core/formats/write_order.hpp"
#include "core/index.hpp"

#include <algorithm>

namespace stagger::formats {
namespace {

using Rows = std::vector<std::vector<std::int64_t>>;

/// Rows of ids, of both classes: those of one head after those of the head before it.
struct ListedTiles {
  std::int64_t heads = 1;  ///< 1 where one head's are all heads'
  Rows partial = {};
  Rows full = {};
};

void add_head(ListedTiles& lists, const TileGrid& grid, bool rows_are_q) {
  const std::size_t first = lists.full.size();
  const std::int32_t rows = rows_are_q ? grid.q_tiles() : grid.kv_tiles();
  lists.partial.resize(first + at(rows));
  lists.full.resize(first + at(rows));
  for (KvTile kv{0}; kv.value < grid.kv_tiles(); ++kv) {
    for (QTile q{0}; q.value < grid.q_tiles(); ++q) {
      const TileKind kind = grid.kind(kv, q);
      if (kind == TileKind::empty) continue;
      Rows& list = kind == TileKind::full ? lists.full : lists.partial;
      list[first + at(rows_are_q ? q.value : kv.value)].push_back(rows_are_q ? kv.value : q.value);
    }
  }
}

/// Heads that have lists of their own.
std::int32_t listed_heads(const HeadGrids& grids, const Problem& problem) {
  return grids.all_alike() ? 1 : problem.heads;
}

ListedTiles lists_of(const HeadGrids& grids, const Problem& problem, bool rows_are_q) {
  const std::int32_t heads = listed_heads(grids, problem);
  ListedTiles lists{.heads = heads};
  for (Head head{0}; head.value < heads; ++head)
    add_head(lists, grids.of(head), rows_are_q);
  return lists;
}

void add(Bundle& bundle, const std::string& name, Tensor tensor) {
  NamedTensor named{.name = name};
  named.tensor = std::move(tensor);
  bundle.tensors.push_back(std::move(named));
}

/// Counts [1, H, rows] of H heads' rows, one after the other.
void add_counts(Bundle& bundle, const std::string& name, const Rows& rows, std::int64_t heads) {
  Tensor counts{.shape = {1, heads, std::ssize(rows) / heads}};
  for (const auto& row : rows)
    counts.elements.push_back(std::ssize(row));
  add(bundle, name, std::move(counts));
}

/// Ids [1, H, rows, width], likewise; 0 beyond the counts.
void add_ids(Bundle& bundle, const std::string& name, const Rows& rows, std::int64_t heads,
             std::int64_t width) {
  Tensor ids{.shape = {1, heads, std::ssize(rows) / heads, width}};
  ids.elements.reserve(rows.size() * at(width));
  for (const auto& row : rows) {
    ids.elements.insert(ids.elements.end(), row.begin(), row.end());
    ids.elements.resize(ids.elements.size() + at(width - std::ssize(row)), 0);
  }
  add(bundle, name, std::move(ids));
}

/// Fills each row up with the ids that it does not list, upwards, as PyTorch's argsort leaves them.
void fill(Rows& rows, std::int64_t columns) {
  std::vector<bool> listed(at(columns));
  for (auto& row : rows) {
    std::fill(listed.begin(), listed.end(), false);
    for (const std::int64_t id : row)
      listed[at(id)] = true;
    for (std::int64_t id = 0; id < columns; ++id) {
      if (!listed[at(id)]) row.push_back(id);
    }
  }
}

void add_numbers(Bundle& bundle, const std::string& name, std::vector<std::int64_t> numbers) {
  const auto size = static_cast<std::int64_t>(numbers.size());
  add(bundle, name, {.dtype = Dtype::int64, .shape = {size}, .elements = std::move(numbers)});
}

void add_flex(Bundle& bundle, const std::string& side, Rows rows, std::int64_t heads,
              std::int64_t columns) {
  add_counts(bundle, side + "_num_blocks", rows, heads);
  fill(rows, columns);
  add_ids(bundle, side + "_indices", rows, heads, columns);
}

std::int64_t longest(const Rows& rows) {
  std::size_t most = 1;
  for (const auto& row : rows)
    most = std::max(most, row.size());
  return static_cast<std::int64_t>(most);
}

void add_fa4(Bundle& bundle, const std::string& prefix, const ListedTiles& lists,
             const TileShape& block) {
  for (const auto& [name, rows] :
       {std::pair("mask_block", &lists.partial), std::pair("full_block", &lists.full)}) {
    const std::int64_t width = longest(*rows);
    expect_room(Checked(std::ssize(*rows)) * width, "fa4");
    add_counts(bundle, prefix + name + "_cnt", *rows, lists.heads);
    add_ids(bundle, prefix + name + "_idx", *rows, lists.heads, width);
  }
  add_numbers(bundle, prefix + "block_size", {block.q, block.kv});
}

}  // namespace

Bundle flex_bundle(const HeadGrids& grids, const Problem& problem) {
  const std::int64_t kv_tiles = problem.kv_tiles();
  const std::int64_t q_tiles = problem.q_tiles();
  expect_room(Checked(kv_tiles) * q_tiles * 4 * listed_heads(grids, problem), "flex");
  Bundle bundle;
  const ListedTiles by_q = lists_of(grids, problem, true);
  const ListedTiles by_kv = lists_of(grids, problem, false);
  add_flex(bundle, "kv", by_q.partial, by_q.heads, kv_tiles);
  add_flex(bundle, "full_kv", by_q.full, by_q.heads, kv_tiles);
  add_flex(bundle, "q", by_kv.partial, by_kv.heads, q_tiles);
  add_flex(bundle, "full_q", by_kv.full, by_kv.heads, q_tiles);
  add_numbers(bundle, "seq_lengths", {problem.lengths.q, problem.lengths.kv});
  add_numbers(bundle, "BLOCK_SIZE", {problem.shape.q, problem.shape.kv});
  return bundle;
}

Bundle fa4_bundle(const HeadGrids& grids, const Problem& problem, const Table* table,
                  std::vector<std::string>& notes) {
  const std::int32_t heads = listed_heads(grids, problem);
  const std::int64_t rows = std::int64_t{problem.kv_tiles()} + problem.q_tiles();
  expect_room(Checked(rows) * heads + grids.live_tiles(heads), "fa4");
  Bundle bundle;
  add_fa4(bundle, "forward.", lists_of(grids, problem, true), problem.shape);
  if (table == nullptr) {
    add_fa4(bundle, "backward.", lists_of(grids, problem, false), problem.shape);
    return bundle;
  }
  const WriteOrder order = write_order_of(*table, grids);
  notes.insert(notes.end(), order.notes.begin(), order.notes.end());
  add_fa4(bundle, "backward.", {order.heads, order.partial.ids, order.full.ids}, problem.shape);
  add_ids(bundle, "backward.dq_write_order", order.partial.ranks, order.heads,
          longest(order.partial.ids));
  add_ids(bundle, "backward.dq_write_order_full", order.full.ranks, order.heads,
          longest(order.full.ids));
  add(bundle, "backward.spt",
      {.dtype = Dtype::boolean, .shape = {}, .elements = {order.spt ? 1 : 0}});
  return bundle;
}

}  // namespace stagger::formats
