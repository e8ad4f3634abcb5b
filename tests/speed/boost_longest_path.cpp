// The obvious way to the makespan of a table, to be timed against `stagger analyze`: an edge list,
// Boost's CSR graph, its topological sort, relaxation. Prints the longest path and nothing else.
//
//   boost_longest_path N HEADS        causal symmetric-shift, c = 5, r = 1

#include "schedules/schedule.hpp"

#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <boost/graph/topological_sort.hpp>
#include <boost/range/iterator_range.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <tuple>
#include <utility>
#include <vector>

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::int64_t n = std::atoll(argv[1]);
  const stagger::Problem problem =
      stagger::make_problem(stagger::make_mask("causal"), {n, n}, {}, std::atoll(argv[2]), n);
  const stagger::Table table =
      stagger::schedules::build(stagger::schedules::select("symmetric-shift"), problem);

  // Nodes: source, sink, and 2 + 2i, 3 + 2i for the end of slot i's compute and reduction.
  const std::size_t tasks = table.slots.size();
  std::vector<std::pair<std::size_t, std::size_t>> edges;
  std::vector<stagger::Ticks> weights;
  const auto add = [&](std::size_t from, std::size_t to, stagger::Ticks weight) {
    edges.emplace_back(from, to);
    weights.push_back(weight);
  };
  std::size_t slot = 0;
  for (stagger::Lane lane{0}; lane.value < table.lanes(); ++lane) {
    std::size_t before = 0;
    for (std::size_t end = slot + table.lane(lane).size(); slot < end; ++slot) {
      add(before, 2 + 2 * slot, 5);
      add(2 + 2 * slot, 3 + 2 * slot, 1);
      before = 3 + 2 * slot;
    }
    add(before, 1, 0);
  }
  std::vector<std::size_t> by_rank(tasks);
  for (std::size_t i = 0; i < tasks; ++i)
    by_rank[i] = i;
  std::sort(by_rank.begin(), by_rank.end(), [&](std::size_t left, std::size_t right) {
    const auto& [a, a_rank] = table.slots[left];
    const auto& [b, b_rank] = table.slots[right];
    return std::tie(a.head, a.q, a_rank) < std::tie(b.head, b.q, b_rank);
  });
  for (std::size_t i = 1; i < tasks; ++i) {
    if (table.slots[by_rank[i]].rank > 0) add(3 + 2 * by_rank[i - 1], 2 + 2 * by_rank[i], 0);
  }

  using Graph =
      boost::compressed_sparse_row_graph<boost::directedS, boost::no_property, stagger::Ticks>;
  const Graph graph(boost::edges_are_unsorted_multi_pass, edges.begin(), edges.end(),
                    weights.begin(), 2 + 2 * tasks);
  std::vector<std::size_t> order;
  boost::topological_sort(graph, std::back_inserter(order));
  std::vector<stagger::Ticks> earliest(2 + 2 * tasks, 0);
  for (auto node = order.rbegin(); node != order.rend(); ++node) {
    for (const auto edge : boost::make_iterator_range(boost::out_edges(*node, graph))) {
      stagger::Ticks& to = earliest[target(edge, graph)];
      to = std::max(to, earliest[*node] + graph[edge]);
    }
  }
  std::printf("%lld\n", static_cast<long long>(earliest[1]));
}
