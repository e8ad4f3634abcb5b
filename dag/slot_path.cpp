#include "dag/slot_path.hpp"

#include <boost/graph/bellman_ford_shortest_paths.hpp>
#include <boost/graph/edge_list.hpp>

#include <algorithm>
#include <map>
#include <tuple>
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

StartGraph start_graph(const Table& table) {
  StartGraph graph;
  graph.tasks.push_back(0);
  std::map<std::tuple<Head, QTile, std::int32_t>, std::pair<int, std::int64_t>> place_of_rank;
  for (Lane lane{0}; lane.value < table.lanes(); ++lane) {
    for (std::int64_t slot = table.begin_of(lane); slot < table.end_of(lane); ++slot) {
      if (table.begins_chain(lane, slot)) {
        const auto chain = static_cast<int>(graph.tasks.size());
        graph.add(0, chain, 0);
        if (slot > table.begin_of(lane)) graph.add(chain - 1, chain, graph.tasks.back());
        graph.tasks.push_back(0);
      }
      const auto chain = static_cast<int>(graph.tasks.size()) - 1;
      const auto& [task, rank] = table.slots[slot];
      place_of_rank[{task.head, task.q, rank}] = {chain, graph.tasks.back()++};
    }
  }
  for (const auto& [rank, place] : place_of_rank) {
    const auto& [head, q, number] = rank;
    const auto before = place_of_rank.find({head, q, number - 1});
    if (before == place_of_rank.end()) continue;
    const auto& [chain, k] = before->second;
    graph.add(chain, place.first, k + 1 - place.second);
  }
  return graph;
}

}  // namespace

std::optional<std::int64_t> slot_path(const Table& table) {
  const StartGraph graph = start_graph(table);
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
