// FlashAttention-4's deterministic block-sparse backward pass: dq_write_order has a rank for every
// entry of the lists, and the kernel makes lock values of them: with G groups a KV block,
// rank * G + the group's number, counted from the other end with spt. A last block of fewer groups
// leaves values out then, which its first group bridges: it adds 1 + what is missing.
// Source: flash_bwd_sm100.py and block_sparsity.py of flash_attn/cute.

#include "workbench/tickets/block_lists.hpp"

#include "core/checked.hpp"
#include "core/error.hpp"
#include "core/limits.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <utility>

namespace stagger::tickets {

extern const Rule kStg012;
extern const Rule kStg015;
extern const Rule kStg016;

namespace {

constexpr std::int64_t kMostRows = std::int64_t{1} << 24;  ///< lists of all masks

/// Calls `visit(row, value)` for every (batch, head, tile) of a nested array; all of its arrays of
/// a level must be of one length. Returns the three lengths.
template <class Visit>
std::array<std::int32_t, 3> each_row(const JsonValue& tensor, Visit visit) {
  std::array<std::int32_t, 3> sizes = {static_cast<std::int32_t>(tensor.size()), -1, -1};
  const auto fits = [](const JsonValue& value, std::int32_t& size) {
    const auto own = static_cast<std::int32_t>(value.size());
    if (size >= 0 && own != size) {
      value.reject("has " + std::to_string(own) + " items, and those before it " +
                   std::to_string(size));
    }
    size = own;
  };
  std::size_t row = 0;
  for (std::size_t batch = 0; batch < tensor.size(); ++batch) {
    const JsonValue heads = tensor.item(batch);
    fits(heads, sizes[1]);
    for (std::size_t head = 0; head < heads.size(); ++head) {
      const JsonValue tiles = heads.item(head);
      fits(tiles, sizes[2]);
      for (std::size_t tile = 0; tile < tiles.size(); ++tile)
        visit(row++, tiles.item(tile));
    }
  }
  for (std::int32_t& size : sizes)
    size = std::max(size, 0);
  return sizes;
}

/// An entry of the lists: which rank a KV block has at a Q block.
struct Ranked {
  std::int64_t head;
  std::int32_t q;
  std::int32_t rank;
  std::int64_t kv;
  auto operator<=>(const Ranked&) const = default;
};

/// By head, Q block and rank.
std::vector<Ranked> ranked(const BlockLists& lists) {
  std::vector<Ranked> all;
  for (const BlockList* list : {&lists.partial, &lists.full}) {
    for (std::size_t row = 0; row < list->ids.size(); ++row) {
      const auto [head, kv] =
          std::div(static_cast<std::int64_t>(row), std::int64_t{lists.kv_blocks});
      for (std::size_t index = 0; index < list->ids[row].size(); ++index)
        all.push_back({head, list->ids[row][index], list->orders[row][index], kv});
    }
  }
  std::ranges::sort(all);
  return all;
}

/// Whether each Q block's ranks go up, or with spt down, with the KV blocks.
bool ranks_go(const BlockLists& lists, bool spt) {
  const std::vector<Ranked> all = ranked(lists);
  return std::ranges::adjacent_find(all, [&](const Ranked& left, const Ranked& right) {
           return left.head == right.head && left.q == right.q && (left.kv < right.kv) == spt;
         }) == all.end();
}

class BlockListReader {
 public:
  BlockListReader(const JsonValue& root, Findings& found) : root_(root), found_(found) {}

  BlockLists run() {
    root_.expect_schema("stagger.fa4/1");
    root_.expect_keys({"schema", "backward", "forward", "q_tiles", "q_subtile", "groups",
                       "group_total", "heads_kv"});
    const JsonValue backward = root_.at("backward");
    backward.expect_keys({"mask_block_cnt", "mask_block_idx", "full_block_cnt", "full_block_idx",
                          "dq_write_order", "dq_write_order_full", "spt", "block_size"});
    lists_.kv_blocks = count_masks(backward, {"dq_write_order", "dq_write_order_full"});
    std::int32_t q_blocks = 0;
    if (root_.has("forward")) q_blocks = count_masks(root_.at("forward"), {});
    const auto rows = Checked(lists_.batches) * lists_.heads;
    if (!(rows * std::max(lists_.kv_blocks, q_blocks)).within(kMostRows)) {
      throw Error(ErrorKind::limit, "more than " + std::to_string(kMostRows) + " lists");
    }
    expect_order(backward, "dq_write_order");
    read_list(backward, "mask", "dq_write_order", lists_.kv_blocks, lists_.partial);
    if (has_full(backward)) {
      expect_order(backward, "dq_write_order_full");
      read_list(backward, "full", "dq_write_order_full", lists_.kv_blocks, lists_.full);
    }
    lists_.full.ids.resize(lists_.partial.ids.size());
    lists_.full.orders.resize(lists_.partial.ids.size());
    if (!backward.has("spt")) reject_without_direction(backward);
    lists_.spt = backward.at("spt").boolean();
    read_kernel();
    if (root_.has("forward")) compare(root_.at("forward"), q_blocks);
    if (lists_.heads_kv && lists_.heads > 1) check_groups();
    return std::move(lists_);
  }

 private:
  [[nodiscard]] static bool has_full(const JsonValue& from) {
    return from.has("full_block_cnt") || from.has("full_block_idx");
  }

  /// What the kernel refuses, too.
  static void expect_order(const JsonValue& backward, const char* name) {
    if (backward.has(name)) return;
    backward.reject(std::string("there is no ") + name +
                    ": FlashAttention-4 refuses to add these lists up in a fixed order "
                    "(compute_dq_write_order makes one; so does create_block_mask's "
                    "compute_dq_write_order=True)");
  }
  [[noreturn]] void reject_without_direction(const JsonValue& backward) const {
    const auto goes = [&](bool spt) { return ranks_go(lists_, spt); };
    const bool up = goes(false);
    const bool down = goes(true);
    backward.reject(std::string("there is no spt (a BlockMask's dq_kv_order_spt): FlashAttention-4 "
                                "refuses a write order whose launch has no direction; the ranks ") +
                    (up && down ? "fit either"
                     : up       ? "are those of spt = false"
                     : down     ? "are those of spt = true"
                                : "are those of neither"));
  }

  /// Counts the masks that an object's tensors have together with those of others: one batch or one
  /// head of a tensor is for all of the others'. Returns the tiles, of which all have as many.
  std::int32_t count_masks(const JsonValue& from, std::vector<const char*> orders) {
    std::vector<const char*> names = {"mask_block_cnt", "mask_block_idx", "full_block_cnt",
                                      "full_block_idx"};
    names.insert(names.end(), orders.begin(), orders.end());
    const std::int32_t tiles = each_row(from.at(names.front()), [](const auto&...) {})[2];
    const auto widen = [](std::int32_t& all, std::int32_t own) {
      if (all == 1) all = own;
      return own == 1 || own == all;
    };
    for (const char* name : names) {
      if (!from.has(name)) continue;
      const auto sizes = each_row(from.at(name), [](const auto&...) {});
      if (sizes[2] != tiles) from.at(name).reject("is of another shape than mask_block_cnt");
      if (!widen(lists_.batches, sizes[0]) || !widen(lists_.heads, sizes[1])) {
        from.at(name).reject("has other batches or heads than the lists before it");
      }
    }
    return tiles;
  }

  /// How many batches and heads a tensor has.
  [[nodiscard]] std::array<std::int32_t, 2> sizes_of(const JsonValue& tensor) const {
    const auto sizes = each_row(tensor, [](const auto&...) {});
    return {sizes[0], sizes[1]};
  }

  /// Calls `visit(row, value)` for the rows of all masks, of a tensor whose one batch or head is
  /// for all of them.
  template <class Visit>
  void each_mask_row(const JsonValue& tensor, std::int32_t tiles, Visit visit) const {
    const auto sizes = sizes_of(tensor);
    std::size_t row = 0;
    for (std::int32_t batch = 0; batch < lists_.batches; ++batch) {
      const JsonValue heads = tensor.item(at(sizes[0] == 1 ? 0 : batch));
      for (std::int32_t head = 0; head < lists_.heads; ++head) {
        const JsonValue rows = heads.item(at(sizes[1] == 1 ? 0 : head));
        for (std::int32_t tile = 0; tile < tiles; ++tile)
          visit(row++, rows.item(at(tile)));
      }
    }
  }

  /// A list's counts, ids and order, checked against each other.
  void read_list(const JsonValue& from, const std::string& prefix, const char* order,
                 std::int32_t tiles, BlockList& list) const {
    std::vector<std::int64_t> counts;
    each_mask_row(from.at(prefix + "_block_cnt"), tiles, [&](std::size_t, const JsonValue& count) {
      counts.push_back(count.integer(0, kMaxTiles));
    });
    std::int64_t entries = 0;
    for (const std::int64_t count : counts)
      entries += count;
    if (entries > kMaxTasks) {
      throw Error(ErrorKind::limit, "more than " + std::to_string(kMaxTasks) + " tasks");
    }
    const auto read = [&](const JsonValue& tensor, std::vector<std::vector<std::int32_t>>& rows,
                          std::int64_t most) {
      rows.resize(counts.size());
      each_mask_row(tensor, tiles, [&](std::size_t row, const JsonValue& items) {
        if (static_cast<std::int64_t>(items.size()) < counts[row]) {
          items.reject("has " + std::to_string(items.size()) + " items, and " + prefix +
                       "_block_cnt says " + std::to_string(counts[row]));
        }
        for (std::int64_t index = 0; index < counts[row]; ++index) {
          rows[row].push_back(static_cast<std::int32_t>(items.item(at(index)).integer(0, most)));
        }
      });
      return sizes_of(tensor);
    };
    read(from.at(prefix + "_block_idx"), list.ids, kMaxTiles - 1);
    if (order != nullptr) list.order_leading = read(from.at(order), list.orders, kAnyIndex);
  }

  void read_kernel() {
    const auto number = [&](const char* key, std::int64_t fallback) {
      return root_.has(key) ? static_cast<std::int32_t>(root_.at(key).integer(1, kMaxTiles))
                            : static_cast<std::int32_t>(fallback);
    };
    lists_.q_subtile = number("q_subtile", 1);
    lists_.groups = number("groups", 1);
    if (std::int64_t{lists_.kv_blocks} * lists_.groups > kMaxTiles) {
      root_.at("groups").reject("makes more than " + std::to_string(kMaxTiles) + " KV tiles");
    }
    const std::int64_t most = std::int64_t{lists_.kv_blocks} * lists_.groups;
    lists_.group_total = number("group_total", std::max<std::int64_t>(most, 1));
    if (lists_.group_total > most || lists_.group_total + lists_.groups <= most) {
      root_.at(root_.has("group_total") ? "group_total" : "backward")
          .reject("group_total must be from " + std::to_string(most - lists_.groups + 1) + " to " +
                  std::to_string(most) + ": only the last KV block can be cut");
    }
    std::int64_t q_blocks = 0;
    for (const BlockList* list : {&lists_.partial, &lists_.full}) {
      for (const auto& row : list->ids) {
        for (const std::int32_t id : row)
          q_blocks = std::max(q_blocks, std::int64_t{id} + 1);
      }
    }
    lists_.q_tiles = number("q_tiles", std::min(q_blocks * lists_.q_subtile, kMaxTiles));
    if (!root_.has("heads_kv")) return;
    lists_.heads_kv = static_cast<std::int32_t>(root_.at("heads_kv").integer(1, kMaxHeads));
    // Lists of one head are for all heads, of which there may be any number.
    if (lists_.heads > 1 && lists_.heads % *lists_.heads_kv != 0) {
      root_.at("heads_kv").reject("does not divide the " + std::to_string(lists_.heads) + " heads");
    }
  }

  /// Tiles of a list as (batch and head, KV block, Q block).
  using Tile = std::array<std::int64_t, 3>;
  [[nodiscard]] static std::vector<Tile> tiles_of(const BlockList& list, std::int64_t rows_a_head,
                                                  bool rows_are_q) {
    std::vector<Tile> tiles;
    for (std::size_t row = 0; row < list.ids.size(); ++row) {
      const auto number = static_cast<std::int64_t>(row);
      for (const std::int32_t id : list.ids[row]) {
        const std::int64_t own = number % rows_a_head;
        tiles.push_back({number / rows_a_head, rows_are_q ? id : own, rows_are_q ? own : id});
      }
    }
    std::sort(tiles.begin(), tiles.end());
    return tiles;
  }

  /// A block's queries and keys, where an object says them.
  [[nodiscard]] static std::optional<std::array<std::int64_t, 2>> block_size_of(
      const JsonValue& from) {
    if (!from.has("block_size") || from.at("block_size").is_null()) return std::nullopt;
    const JsonValue sizes = from.at("block_size");
    if (sizes.size() != 2) {
      sizes.reject("has " + std::to_string(sizes.size()) +
                   " items; a block size is two: queries, keys");
    }
    return std::array{sizes.item(0).integer(1, kAnyIndex), sizes.item(1).integer(1, kAnyIndex)};
  }

  /// The forward lists must be the same tiles, class by class, unless their blocks are of another
  /// size.
  void compare(const JsonValue& forward, std::int32_t q_blocks) {
    forward.expect_keys(
        {"mask_block_cnt", "mask_block_idx", "full_block_cnt", "full_block_idx", "block_size"});
    BlockList partial;
    BlockList full;
    read_list(forward, "mask", nullptr, q_blocks, partial);
    if (has_full(forward)) read_list(forward, "full", nullptr, q_blocks, full);
    if (block_size_of(forward) != block_size_of(root_.at("backward"))) return;
    compare(partial, lists_.partial, q_blocks, "partial", "mask_block_idx");
    compare(full, lists_.full, q_blocks, "full", "full_block_idx");
  }

  void compare(const BlockList& forward, const BlockList& backward, std::int32_t q_blocks,
               const char* which, const char* ids) {
    const JsonValue lists = root_.at("backward");
    const auto sizes = lists.has(ids) ? sizes_of(lists.at(ids)) : std::array<std::int32_t, 2>{};
    // The KV block's row of the backward list, if that is there.
    const auto row_of = [&](const Tile& tile) -> std::string {
      if (sizes[0] == 0 || tile[1] >= lists_.kv_blocks) return "/backward";
      const std::int64_t batch = sizes[0] == 1 ? 0 : tile[0] / lists_.heads;
      const std::int64_t head = sizes[1] == 1 ? 0 : tile[0] % lists_.heads;
      return std::string("/backward/") + ids + "/" + std::to_string(batch) + "/" +
             std::to_string(head) + "/" + std::to_string(tile[1]);
    };
    const std::vector<Tile> ahead = tiles_of(forward, std::max(q_blocks, 1), true);
    const std::vector<Tile> back = tiles_of(backward, std::max(lists_.kv_blocks, 1), false);
    const auto report = [&](const std::vector<Tile>& from, const std::vector<Tile>& to,
                            const Rule& rule, const char* what) {
      std::vector<Tile> missing;
      std::set_difference(from.begin(), from.end(), to.begin(), to.end(),
                          std::back_inserter(missing));
      for (const Tile& tile : missing) {
        if (found_.full(rule)) {
          found_.push_back({.rule = &rule});
          continue;
        }
        found_.push_back({.rule = &rule,
                          .message = "head " + std::to_string(tile[0]) + ", kv " +
                                     std::to_string(tile[1]) + ", q " + std::to_string(tile[2]) +
                                     " is " + what + " " + which + " list",
                          .pointer = row_of(tile)});
      }
    };
    report(ahead, back, kStg016, "in the forward lists, and not in the backward pass's");
    report(back, ahead, kStg015, "in the backward lists, and not in the forward pass's");
  }

  /// A KV block that is empty for some heads of a group, and not for all.
  void check_groups() {
    const std::int32_t group = lists_.heads / *lists_.heads_kv;
    const auto length = [&](std::int64_t head, std::int64_t kv) {
      const auto row = at(head * lists_.kv_blocks + kv);
      return lists_.partial.ids[row].size() + lists_.full.ids[row].size();
    };
    for (std::int64_t first = 0; first < std::int64_t{lists_.batches} * lists_.heads;
         first += group) {
      for (std::int64_t kv = 0; kv < lists_.kv_blocks; ++kv) {
        std::int32_t empty = 0;
        for (std::int64_t head = first; head < first + group; ++head)
          empty += length(head, kv) == 0 ? 1 : 0;
        if (empty == 0 || empty == group) continue;
        found_.push_back({.rule = &kStg012,
                          .level = Level::warning,
                          .message = "kv " + std::to_string(kv) + " is empty for " +
                                     std::to_string(empty) + " of the " + std::to_string(group) +
                                     " heads from " + std::to_string(first) +
                                     " on that share K and V: a kernel that leaves early there "
                                     "does not pass on the turn of dK and dV",
                          .pointer = "/backward/mask_block_cnt"});
      }
    }
  }

  const JsonValue& root_;
  Findings& found_;
  BlockLists lists_;
};

/// One head's programs, in launch order.
class Launch {
 public:
  Launch(const BlockLists& lists, Tickets& tickets, std::vector<ListEntry>& entries)
      : lists_(lists), tickets_(tickets), entries_(entries) {}

  void head(std::int32_t head) {
    head_ = head;
    for (std::int32_t place = 0; place < lists_.group_total; ++place) {
      const std::int32_t kv = lists_.spt ? lists_.group_total - 1 - place : place;
      program(kv / lists_.groups, kv % lists_.groups);
    }
  }

 private:
  void program(std::int32_t block, std::int32_t group) {
    const std::int64_t row = std::int64_t{head_} * lists_.kv_blocks + block;
    add(lists_.partial, row, false, block, group);
    add(lists_.full, row, true, block, group);
    tickets_.end_program();
  }

  void add(const BlockList& list, std::int64_t row, bool full, std::int32_t block,
           std::int32_t group) {
    const std::int32_t own = std::min(lists_.groups, lists_.group_total - block * lists_.groups);
    const std::int32_t number = lists_.spt ? own - 1 - group : group;
    const std::int32_t bridge = lists_.spt && group == 0 ? lists_.groups - own : 0;
    for (std::int64_t index = 0; index < std::ssize(list.ids[at(row)]); ++index) {
      const std::int64_t lock =
          std::int64_t{list.orders[at(row)][at(index)]} * lists_.groups + number;
      if (lock > kAnyIndex) {
        throw Error(ErrorKind::limit, "lock values above " + std::to_string(kAnyIndex));
      }
      for (std::int32_t part = 0; part < lists_.q_subtile; ++part) {
        const std::int64_t q = std::int64_t{list.ids[at(row)][at(index)]} * lists_.q_subtile + part;
        if (q >= lists_.q_tiles) break;
        add_step(q, block * lists_.groups + group, lock, 1 + bridge);
        entries_.push_back({row, index, full});
      }
    }
  }

  void add_step(std::int64_t q, std::int32_t kv, std::int64_t lock, std::int32_t add) {
    if (std::ssize(tickets_.steps) >= kMaxTasks) {
      throw Error(ErrorKind::limit, "more than " + std::to_string(kMaxTasks) + " tasks");
    }
    const Task task{Head{head_}, KvTile{kv}, QTile{static_cast<std::int32_t>(q)}};
    const std::int64_t semaphore = std::int64_t{head_} * lists_.q_tiles + q;
    tickets_.steps.push_back({.semaphore = Semaphore{static_cast<std::int32_t>(semaphore)},
                              .wait = static_cast<std::int32_t>(lock),
                              .add = add,
                              .task = task,
                              .chain = chain_of(task)});
  }

  const BlockLists& lists_;
  Tickets& tickets_;
  std::vector<ListEntry>& entries_;
  std::int32_t head_ = 0;
};

}  // namespace

BlockLists read_block_lists(const JsonValue& root, Findings& found) {
  return BlockListReader(root, found).run();
}

bool ranks_are_whole(const BlockLists& lists) {
  const Ranked* before = nullptr;
  const std::vector<Ranked> all = ranked(lists);
  for (const Ranked& each : all) {
    const bool follows = before != nullptr && before->head == each.head && before->q == each.q;
    if (each.rank != (follows ? before->rank + 1 : 0)) return false;
    before = &each;
  }
  return true;
}

Tickets tickets_of(const BlockLists& lists, std::vector<ListEntry>& entries) {
  const std::int64_t heads = std::int64_t{lists.batches} * lists.heads;
  constexpr std::int64_t kMost = std::int64_t{1} << 24;
  if (heads * lists.q_tiles > kMost || heads * lists.group_total > kMost) {
    throw Error(ErrorKind::limit, "more than " + std::to_string(kMost) + " semaphores or programs");
  }
  Tickets tickets{.name = "fa4"};
  tickets.initial.assign(heads * lists.q_tiles, 0);
  Launch launch(lists, tickets, entries);
  for (std::int32_t head = 0; head < heads; ++head)
    launch.head(head);
  return tickets;
}

std::string pointer_of(const BlockLists& lists, const ListEntry& entry) {
  const std::int64_t head = entry.row / lists.kv_blocks;
  std::string pointer = entry.full ? "/backward/dq_write_order_full" : "/backward/dq_write_order";
  const auto [batches, heads] = (entry.full ? lists.full : lists.partial).order_leading;
  const std::int64_t own_batch = batches == 1 ? 0 : head / lists.heads;
  const std::int64_t own_head = heads == 1 ? 0 : head % lists.heads;
  for (const std::int64_t index : {own_batch, own_head, entry.row % lists.kv_blocks, entry.index})
    pointer += "/" + std::to_string(index);
  return pointer;
}

}  // namespace stagger::tickets
