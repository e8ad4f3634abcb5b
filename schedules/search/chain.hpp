#pragma once

#include "core/table.hpp"

#include <cstdint>
#include <functional>
#include <vector>

namespace stagger::search {

/// All tasks of one KV tile of a part's heads: what an SM takes as a whole.
struct Chain {
  Head head;  ///< the first of its part
  KvTile kv;
  std::int32_t length = 0;

  friend bool operator==(const Chain&, const Chain&) = default;
};

/// The chains of a problem that have tasks, part by part, KV tiles ascending.
[[nodiscard]] inline std::vector<Chain> chains_of(const Problem& problem) {
  std::vector<Chain> chains;
  for (Head head{0}; head.value < problem.heads; head.value += problem.span) {
    for (KvTile kv{0}; kv.value < problem.kv_tiles(); ++kv) {
      const std::int64_t length = problem.chain_length(problem.part_of(head), kv);
      if (length > 0) chains.push_back({head, kv, static_cast<std::int32_t>(length)});
    }
  }
  return chains;
}

/// A chain's tasks, head by head, Q tiles ascending.
[[nodiscard]] inline std::vector<Task> tasks_of(const Problem& problem, const Chain& chain) {
  std::vector<Task> tasks;
  tasks.reserve(at(chain.length));
  for (Head head = chain.head; head.value < chain.head.value + problem.span; ++head) {
    for (const QTile q : problem.grid_of(head).live_q(chain.kv))
      tasks.push_back({head, chain.kv, q});
  }
  return tasks;
}

/// Places among `chains` of those that are added to one dK and dV in turn, for every dK and dV that
/// has several: of these no two can end at once. None unless parts are combined in order.
[[nodiscard]] inline std::vector<std::vector<std::size_t>> added_in_turn(
    const Problem& problem, const std::vector<Chain>& chains) {
  std::vector<std::vector<std::size_t>> in_turn;
  if (problem.combine != Combine::ordered) return in_turn;
  in_turn.resize(at(problem.heads_kv) * at(problem.kv_tiles()));
  for (std::size_t chain = 0; chain < chains.size(); ++chain) {
    const Task first{chains[chain].head, chains[chain].kv, {}};
    in_turn[at(problem.dkv_place(first))].push_back(chain);
  }
  std::erase_if(in_turn, [](const auto& parts) { return parts.size() < 2; });
  return in_turn;
}

/// Asked now and then while a search works, from any of its threads; true ends it.
using Stop = std::function<bool()>;

/// The chains of every SM, in order.
using ChainLanes = std::vector<std::vector<Chain>>;

/// The chains of a static table's lanes, in their order.
[[nodiscard]] inline ChainLanes chain_lanes_of(const Table& table) {
  const Problem& problem = table.problem;
  ChainLanes lanes(static_cast<std::size_t>(table.lanes()));
  for (Lane lane{0}; lane.value < table.lanes(); ++lane) {
    std::vector<Chain>& chains = lanes[static_cast<std::size_t>(lane.value)];
    for (const auto& [task, rank] : table.lane(lane)) {
      const bool begins = chains.empty() || chains.back().kv != task.kv ||
                          problem.part_of(chains.back().head) != problem.part_of(task.head);
      if (begins) {
        const Head first{problem.part_of(task.head).value * problem.span};
        chains.push_back({first, task.kv, 0});
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
