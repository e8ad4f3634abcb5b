#pragma once

#include "core/json_value.hpp"
#include "workbench/tickets/rules.hpp"
#include "workbench/tickets/tickets.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace stagger::tickets {

/// Tiles of each row of one list, with a lock value each where an order was made.
struct BlockList {
  std::vector<std::vector<std::int32_t>> ids = {};     ///< by row: (batch, head, tile)
  std::vector<std::vector<std::int32_t>> orders = {};  ///< likewise; empty: none
  /// Batches and heads that the file has orders of: one is for all.
  std::array<std::int32_t, 2> order_leading = {1, 1};
};

/// FlashAttention-4's block-sparse tensors for the backward pass, as it walks them: a row for each
/// (batch, head, KV block), of Q blocks of which some pairs attend, and of which all do.
struct BlockLists {
  std::int32_t batches = 1;
  std::int32_t heads = 1;
  std::int32_t kv_blocks = 0;
  BlockList partial = {};
  BlockList full = {};
  bool spt = false;              ///< launched from the last KV block down
  std::int32_t q_tiles = 0;      ///< of the kernel
  std::int32_t q_subtile = 1;    ///< of a Q block
  std::int32_t groups = 1;       ///< tiles, or clusters of them, of a KV block
  std::int32_t group_total = 0;  ///< of all KV blocks: the last may have fewer
  std::optional<std::int32_t> heads_kv = {};
};

/// Which entry of a list a step is.
struct ListEntry {
  std::int64_t row = 0;
  std::int64_t index = 0;
  bool full = false;
};

/// Reads schema `stagger.fa4/1` (README, "Files"). What can be said only of lists (those of the
/// forward pass are others, a group of heads is not all there) is added to `found`.
[[nodiscard]] BlockLists read_block_lists(const JsonValue& root, Findings& found);

/// Whether the orders have the ranks 0 to k-1 of every Q block, each once.
[[nodiscard]] bool ranks_are_whole(const BlockLists& lists);

/// What the kernel does by the lists: a program for each group of a KV block, in launch order.
/// `entries` is given each step's. Throws Error{limit} if that are too many.
[[nodiscard]] Tickets tickets_of(const BlockLists& lists, std::vector<ListEntry>& entries);

/// `/backward/dq_write_order/0/1/3/2`.
[[nodiscard]] std::string pointer_of(const BlockLists& lists, const ListEntry& entry);

}  // namespace stagger::tickets
