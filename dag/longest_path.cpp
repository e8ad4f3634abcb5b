#include "dag/longest_path.hpp"

#include "core/error.hpp"

#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <boost/graph/topological_sort.hpp>

#include <algorithm>
#include <iterator>
#include <utility>

namespace stagger::dag {
namespace {

using Graph =
    boost::compressed_sparse_row_graph<boost::directedS, boost::no_property, boost::no_property,
                                       boost::no_property, std::size_t, std::size_t>;

/// Nodes in reverse topological order, nullopt on a cycle.
std::optional<std::vector<std::size_t>> reverse_topological_order(const Dag& dag) {
  std::vector<std::pair<std::size_t, std::size_t>> ends;
  ends.reserve(dag.edges.size());
  for (const Edge& edge : dag.edges)
    ends.emplace_back(at(edge.from), at(edge.to));
  const Graph graph(boost::edges_are_unsorted_multi_pass, ends.begin(), ends.end(),
                    dag.nodes.size());
  std::vector<std::size_t> order;
  order.reserve(dag.nodes.size());
  try {
    boost::topological_sort(graph, std::back_inserter(order));
  } catch (const boost::not_a_dag&) {
    return std::nullopt;
  }
  return order;
}

/// Edge indices grouped by one of their ends.
struct Incidence {
  IndexVector<std::int64_t, std::size_t> begin;
  std::vector<std::size_t> edges;
};

Incidence group_by(const Dag& dag, std::int64_t Edge::*end) {
  Incidence groups;
  groups.begin.assign(dag.nodes.size() + 1, 0);
  for (const Edge& edge : dag.edges)
    ++groups.begin[edge.*end + 1];
  for (std::size_t node = 0; node < dag.nodes.size(); ++node) {
    groups.begin[node + 1] += groups.begin[node];
  }
  groups.edges.resize(dag.edges.size());
  IndexVector<std::int64_t, std::size_t> next(groups.begin.begin(), groups.begin.end() - 1);
  for (std::size_t edge = 0; edge < dag.edges.size(); ++edge) {
    groups.edges[next[dag.edges[edge].*end]++] = edge;
  }
  return groups;
}

Phase phase_of(EdgeKind kind) {
  switch (kind) {
    case EdgeKind::launch:
      return Phase::launch;
    case EdgeKind::compute:
      return Phase::compute;
    case EdgeKind::reduce:
      return Phase::reduce;
    case EdgeKind::reduce_kv:
      return Phase::reduce_kv;
    case EdgeKind::epilogue:
      return Phase::epilogue;
    case EdgeKind::order:
    case EdgeKind::dependency:
    case EdgeKind::dispatch:
      break;
  }
  return Phase::wait;
}

/// The edges of one longest path, first to last.
std::vector<std::size_t> critical_edges(const Dag& dag, const PathTimes& times) {
  const Incidence in = group_by(dag, &Edge::to);
  std::vector<std::size_t> path;
  for (std::int64_t node = kSink; node != kSource; node = dag.edges[path.back()].from) {
    std::size_t best = dag.edges.size();
    for (std::size_t place = in.begin[node]; place < in.begin[node + 1]; ++place) {
      const Edge& edge = dag.edges[in.edges[place]];
      if (times.earliest[edge.from] + edge.weight != times.earliest[node]) continue;
      if (best == dag.edges.size() || dag.edges[best].kind == EdgeKind::dependency) {
        best = in.edges[place];
      }
    }
    STAGGER_EXPECTS(best < dag.edges.size());
    path.push_back(best);
  }
  std::reverse(path.begin(), path.end());
  return path;
}

}  // namespace

std::optional<Relaxation> Relaxation::of(const Dag& dag) {
  const auto order = reverse_topological_order(dag);
  if (!order) return std::nullopt;
  const Incidence out = group_by(dag, &Edge::from);
  Relaxation relaxation;
  relaxation.edges_.reserve(dag.edges.size());
  for (auto node = order->rbegin(); node != order->rend(); ++node) {
    for (std::size_t place = out.begin[*node]; place < out.begin[*node + 1]; ++place) {
      relaxation.edges_.push_back(out.edges[place]);
    }
  }
  return relaxation;
}

IndexVector<std::int64_t, Ticks> Relaxation::earliest(const Dag& dag) const {
  IndexVector<std::int64_t, Ticks> times(dag.nodes.size(), 0);
  for (const std::size_t index : edges_) {
    const Edge& edge = dag.edges[index];
    times[edge.to] = std::max(times[edge.to], times[edge.from] + edge.weight);
  }
  return times;
}

IndexVector<std::int64_t, Ticks> Relaxation::latest(const Dag& dag, Ticks length) const {
  IndexVector<std::int64_t, Ticks> times(dag.nodes.size(), length);
  for (auto index = edges_.rbegin(); index != edges_.rend(); ++index) {
    const Edge& edge = dag.edges[*index];
    times[edge.from] = std::min(times[edge.from], times[edge.to] - edge.weight);
  }
  return times;
}

std::optional<PathTimes> path_times(const Dag& dag) {
  const auto relaxation = Relaxation::of(dag);
  if (!relaxation) return std::nullopt;
  PathTimes times;
  times.earliest = relaxation->earliest(dag);
  times.length = times.earliest[kSink];
  times.latest = relaxation->latest(dag, times.length);
  return times;
}

std::vector<std::int64_t> critical_nodes(const Dag& dag, const PathTimes& times) {
  std::vector<std::int64_t> nodes = {kSource};
  for (const std::size_t edge : critical_edges(dag, times))
    nodes.push_back(dag.edges[edge].to);
  return nodes;
}

CriticalPath critical_path(const Table& table, const Dag& dag, const PathTimes& times) {
  CriticalPath path{.length = times.length, .steps = {}};
  for (const std::size_t index : critical_edges(dag, times)) {
    const Edge& edge = dag.edges[index];
    if (edge.weight == 0) continue;
    const Phase phase = phase_of(edge.kind);
    // A dependency's weight belongs to the one who waits; a phase to the slot that ends it.
    const Node& node = dag.nodes[edge.to];
    const Ticks start = times.earliest[edge.from];
    path.steps.push_back({.sm = dag.sm_of_lane[node.lane],
                          .task = table.slots[node.slot].task,
                          .phase = phase,
                          .start = start,
                          .end = start + edge.weight});
  }
  return path;
}

}  // namespace stagger::dag
