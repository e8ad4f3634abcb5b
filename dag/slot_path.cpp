#include "dag/slot_path.hpp"

#include "core/rank_places.hpp"

#include <boost/graph/bellman_ford_shortest_paths.hpp>
#include <boost/graph/edge_list.hpp>

#include <algorithm>
#include <utility>
#include <vector>

namespace stagger::dag {
namespace {

/// Vertex 0 is the beginning of time; vertex i + 1 is the start of chain i.
struct StartGraph {
  std::vector<std::pair<int, int>> edges;
  std::vector<std::int64_t> lengths;  ///< by edge, negated: a longest path is a shortest one
  std::vector<std::int64_t> tasks;    ///< by vertex; 0 for the beginning

  void add(int from, int to, std::int64_t length) {
    edges.emplace_back(from, to);
    lengths.push_back(-length);
  }
};

/// A task by its rank.
struct Place {
  int chain = 0;
  std::int64_t position = 0;  ///< in its chain
};

class StartGraphBuilder {
 public:
  explicit StartGraphBuilder(const Table& table)
      : table_(table), ranks_(table.problem), places_(ranks_.size()) {
    if (table.problem.combine != Combine::ordered) return;
    parts_.assign(at(std::int64_t{table.problem.heads_kv} * table.problem.kv_tiles() *
                     table.problem.group_parts()),
                  0);
  }

  StartGraph run() {
    graph_.tasks.push_back(0);
    for (Lane lane{0}; lane.value < table_.lanes(); ++lane)
      add_lane(lane);
    add_waits();
    return std::move(graph_);
  }

 private:
  struct Chain {
    std::int64_t after = 0;  ///< tasks before it on its lane: it starts no sooner
    std::int64_t slot = 0;   ///< its first
    int vertex = 0;
    friend auto operator<=>(const Chain&, const Chain&) = default;
  };

  void add_lane(Lane lane) {
    for (std::int64_t slot = table_.begin_of(lane); slot < table_.end_of(lane); ++slot) {
      if (table_.begins_chain(lane, slot)) {
        const auto chain = static_cast<int>(graph_.tasks.size());
        graph_.add(0, chain, 0);
        graph_.tasks.push_back(0);
        chains_.push_back({slot - table_.begin_of(lane), slot, chain});
        if (!parts_.empty()) part(table_.slots[slot].task, 0) = chain;
      }
      const auto& [task, rank] = table_.slots[slot];
      places_[ranks_.of(task, rank)] = {static_cast<int>(graph_.tasks.size()) - 1,
                                        graph_.tasks.back()++};
    }
  }

  /// The vertex of the chain that is so far from a task's chain in the accumulation of its KV
  /// tile's dK and dV.
  int& part(const Task& task, std::int32_t distance) {
    const Problem& problem = table_.problem;
    return parts_[at(problem.dkv_place(task) * problem.group_parts() + table_.dkv_rank(task) +
                     distance)];
  }

  /// Into the chains in about the order in which they start: an edge rarely moves a start from
  /// which edges were followed already.
  void add_waits() {
    std::sort(chains_.begin(), chains_.end());
    for (const Chain& chain : chains_) {
      const std::int64_t tasks = graph_.tasks[at(chain.vertex)];
      if (chain.after > 0)
        waits_.emplace_back(chain.vertex - 1, graph_.tasks[at(chain.vertex - 1)]);
      for (std::int64_t position = 0; position < tasks; ++position) {
        const auto& [task, rank] = table_.slots[chain.slot + position];
        if (rank == 0) continue;
        const Place before = places_[ranks_.of(task, rank - 1)];
        waits_.emplace_back(before.chain, before.position + 1 - position);
      }
      const Task& task = table_.slots[chain.slot].task;
      if (!parts_.empty() && table_.dkv_rank(task) > 0) {
        const int before = part(task, -1);
        waits_.emplace_back(before, graph_.tasks[at(before)] + 1 - tasks);
      }
      add_waits_of(chain.vertex);
    }
  }

  /// Adds the edges to other chains, between two chains the longest one alone.
  void add_waits_of(int chain) {
    std::sort(waits_.begin(), waits_.end());
    for (std::size_t wait = 0; wait < waits_.size(); ++wait) {
      const auto& [before, length] = waits_[wait];
      if (wait + 1 == waits_.size() || waits_[wait + 1].first != before) {
        graph_.add(before, chain, length);
      }
    }
    waits_.clear();
  }

  const Table& table_;
  RankPlaces ranks_;
  std::vector<Place> places_;
  StartGraph graph_;
  std::vector<int> parts_;  ///< vertices by KV tile, then rank; empty unless combined in order
  std::vector<Chain> chains_;
  std::vector<std::pair<int, std::int64_t>> waits_;  ///< of a chain: for which, how far
};

}  // namespace

std::optional<std::int64_t> slot_path(const Table& table) {
  const StartGraph graph = StartGraphBuilder(table).run();
  using Edges = boost::edge_list<std::vector<std::pair<int, int>>::const_iterator>;
  const Edges edges(graph.edges.begin(), graph.edges.end());
  std::vector<std::int64_t> starts(graph.tasks.size(), 0);
  const auto vertices = static_cast<int>(graph.tasks.size());
  const bool settles = boost::bellman_ford_shortest_paths(
      edges, vertices,
      boost::weight_map(boost::make_iterator_property_map(graph.lengths.begin(),
                                                          boost::get(boost::edge_index, edges)))
          .distance_map(starts.data()));
  if (!settles) return std::nullopt;
  std::int64_t makespan = 0;
  for (std::size_t chain = 0; chain < starts.size(); ++chain)
    makespan = std::max(makespan, graph.tasks[chain] - starts[chain]);
  return makespan;
}

}  // namespace stagger::dag
