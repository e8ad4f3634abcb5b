// Masks as lists of tiles: FlexAttention's and FlashAttention-4's.

#include "core/error.hpp"
#include "core/formats/mask_export.hpp"
#include "core/formats/write_order.hpp"
#include "core/index.hpp"

#include <algorithm>

namespace stagger::formats {
namespace {

/// Rows of ids, of both classes.
struct ListedTiles {
  std::vector<std::vector<std::int64_t>> partial;
  std::vector<std::vector<std::int64_t>> full;
};

ListedTiles lists_of(const TileGrid& grid, bool rows_are_q) {
  ListedTiles lists;
  const std::int32_t rows = rows_are_q ? grid.q_tiles() : grid.kv_tiles();
  lists.partial.resize(at(rows));
  lists.full.resize(at(rows));
  for (KvTile kv{0}; kv.value < grid.kv_tiles(); ++kv) {
    for (QTile q{0}; q.value < grid.q_tiles(); ++q) {
      const TileKind kind = grid.kind(kv, q);
      if (kind == TileKind::empty) continue;
      auto& list = kind == TileKind::full ? lists.full : lists.partial;
      list[at(rows_are_q ? q.value : kv.value)].push_back(rows_are_q ? kv.value : q.value);
    }
  }
  return lists;
}

void add(Bundle& bundle, const std::string& name, Tensor tensor) {
  NamedTensor named{.name = name};
  named.tensor = std::move(tensor);
  bundle.tensors.push_back(std::move(named));
}

/// [1, H, rows, width], of H heads' rows one after the other.
void add_lists(Bundle& bundle, const std::string& cnt, const std::string& idx,
               const std::vector<std::vector<std::int64_t>>& rows, std::int64_t heads,
               std::int64_t width) {
  const std::int64_t per_head = std::ssize(rows) / heads;
  Tensor counts{.shape = {1, heads, per_head}};
  Tensor ids{.shape = {1, heads, per_head, width}};
  for (const auto& row : rows) {
    counts.elements.push_back(std::ssize(row));
    ids.elements.insert(ids.elements.end(), row.begin(), row.end());
    ids.elements.resize(counts.elements.size() * at(width), 0);
  }
  if (!cnt.empty()) add(bundle, cnt, std::move(counts));
  add(bundle, idx, std::move(ids));
}

/// Fills each row up with the ids that it does not list, upwards, as PyTorch's argsort leaves them;
/// returns the counts before.
Tensor filled(std::vector<std::vector<std::int64_t>>& rows, std::int64_t columns) {
  Tensor counts{.shape = {1, 1, std::ssize(rows)}};
  std::vector<bool> listed(at(columns));
  for (auto& row : rows) {
    counts.elements.push_back(std::ssize(row));
    std::fill(listed.begin(), listed.end(), false);
    for (const std::int64_t id : row)
      listed[at(id)] = true;
    for (std::int64_t id = 0; id < columns; ++id) {
      if (!listed[at(id)]) row.push_back(id);
    }
  }
  return counts;
}

void add_numbers(Bundle& bundle, const std::string& name, std::vector<std::int64_t> numbers) {
  const auto size = static_cast<std::int64_t>(numbers.size());
  add(bundle, name, {.dtype = Dtype::int64, .shape = {size}, .elements = std::move(numbers)});
}

void add_flex(Bundle& bundle, const std::string& side, std::vector<std::vector<std::int64_t>> rows,
              std::int64_t columns) {
  add(bundle, side + "_num_blocks", filled(rows, columns));
  add_lists(bundle, "", side + "_indices", rows, 1, columns);
}

std::int64_t longest(const std::vector<std::vector<std::int64_t>>& rows) {
  std::size_t most = 1;
  for (const auto& row : rows)
    most = std::max(most, row.size());
  return static_cast<std::int64_t>(most);
}

void add_fa4(Bundle& bundle, const std::string& prefix, const ListedTiles& lists,
             std::int64_t heads, const TileShape& block) {
  add_lists(bundle, prefix + "mask_block_cnt", prefix + "mask_block_idx", lists.partial, heads,
            longest(lists.partial));
  add_lists(bundle, prefix + "full_block_cnt", prefix + "full_block_idx", lists.full, heads,
            longest(lists.full));
  add_numbers(bundle, prefix + "block_size", {block.q, block.kv});
}

}  // namespace

Bundle flex_bundle(const TileGrid& grid, const Problem& problem) {
  Bundle bundle;
  const ListedTiles by_q = lists_of(grid, true);
  const ListedTiles by_kv = lists_of(grid, false);
  add_flex(bundle, "kv", by_q.partial, grid.kv_tiles());
  add_flex(bundle, "full_kv", by_q.full, grid.kv_tiles());
  add_flex(bundle, "q", by_kv.partial, grid.q_tiles());
  add_flex(bundle, "full_q", by_kv.full, grid.q_tiles());
  add_numbers(bundle, "seq_lengths", {problem.lengths.q, problem.lengths.kv});
  add_numbers(bundle, "BLOCK_SIZE", {problem.shape.q, problem.shape.kv});
  return bundle;
}

Bundle fa4_bundle(const TileGrid& grid, const Problem& problem, const Table* table,
                  std::vector<std::string>& notes) {
  Bundle bundle;
  add_fa4(bundle, "forward.", lists_of(grid, true), 1, problem.shape);
  if (table == nullptr) {
    add_fa4(bundle, "backward.", lists_of(grid, false), 1, problem.shape);
    return bundle;
  }
  const WriteOrder order = write_order_of(*table, grid);
  notes.insert(notes.end(), order.notes.begin(), order.notes.end());
  add_fa4(bundle, "backward.", {order.partial.ids, order.full.ids}, order.heads, problem.shape);
  add_lists(bundle, "", "backward.dq_write_order", order.partial.ranks, order.heads,
            longest(order.partial.ids));
  add_lists(bundle, "", "backward.dq_write_order_full", order.full.ranks, order.heads,
            longest(order.full.ids));
  add(bundle, "backward.spt",
      {.dtype = Dtype::boolean, .shape = {}, .elements = {order.spt ? 1 : 0}});
  return bundle;
}

}  // namespace stagger::formats
