#pragma once

#include "core/table.hpp"

#include <cstdint>
#include <functional>
#include <vector>

namespace stagger::search {

/// All tasks of one KV tile of one head: what an SM takes as a whole.
struct Chain {
  Head head;
  KvTile kv;
  std::int32_t length = 0;

  friend bool operator==(const Chain&, const Chain&) = default;
};

/// The chains of a problem that have tasks, head by head, KV tiles ascending.
[[nodiscard]] inline std::vector<Chain> chains_of(const Problem& problem) {
  std::vector<Chain> chains;
  for (Head head{0}; head.value < problem.heads; ++head) {
    const TileGrid& grid = problem.grid_of(head);
    for (KvTile kv{0}; kv.value < grid.kv_tiles(); ++kv) {
      const std::int32_t length = grid.chain_length(kv);
      if (length > 0) chains.push_back({head, kv, length});
    }
  }
  return chains;
}

/// Asked now and then while a search works, from any of its threads; true ends it.
using Stop = std::function<bool()>;

/// The chains of every SM, in order.
using ChainLanes = std::vector<std::vector<Chain>>;

/// The chains of a static table's lanes, in their order.
[[nodiscard]] inline ChainLanes chain_lanes_of(const Table& table) {
  ChainLanes lanes(static_cast<std::size_t>(table.lanes()));
  for (Lane lane{0}; lane.value < table.lanes(); ++lane) {
    std::vector<Chain>& chains = lanes[static_cast<std::size_t>(lane.value)];
    for (const auto& [task, rank] : table.lane(lane)) {
      if (chains.empty() || chains.back().head != task.head || chains.back().kv != task.kv) {
        chains.push_back({task.head, task.kv, 0});
      }
      ++chains.back().length;
    }
  }
  return lanes;
}

/// A static table from the slots of every SM.
[[nodiscard]] inline Table table_of(const Problem& problem,
                                    const std::vector<std::vector<Slot>>& lanes) {
  Table table;
  table.problem = problem;
  table.slots.reserve(static_cast<std::size_t>(problem.tasks()));
  for (const std::vector<Slot>& lane : lanes) {
    table.slots.insert(table.slots.end(), lane.begin(), lane.end());
    table.end_lane();
  }
  return table;
}

}  // namespace stagger::search
