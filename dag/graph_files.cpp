#include "dag/graph_files.hpp"

#include "dag/longest_path.hpp"

#include <fmt/format.h>

namespace stagger::dag {
namespace {

const char* name(NodeKind kind) {
  constexpr const char* kNames[] = {"source", "sink",    "dispatched", "launched", "computed",
                                    "turn",   "reduced", "kv-turn",    "combined", "written"};
  return kNames[static_cast<int>(kind)];
}

const char* name(EdgeKind kind) {
  constexpr const char* kNames[] = {"launch",   "compute", "reduce",     "reduce-kv",
                                    "epilogue", "order",   "dependency", "dispatch"};
  return kNames[static_cast<int>(kind)];
}

/// A graph with its times and one critical path, if it has no cycle.
struct Timed {
  std::optional<PathTimes> times;
  IndexVector<std::int64_t, std::int64_t> next_critical;  ///< by node: the one after it, or -1

  explicit Timed(const Dag& dag) : times(path_times(dag)), next_critical(dag.nodes.size(), -1) {
    if (!times) return;
    const std::vector<std::int64_t> path = critical_nodes(dag, *times);
    for (std::size_t place = 1; place < path.size(); ++place) {
      next_critical[path[place - 1]] = path[place];
    }
  }
  [[nodiscard]] bool critical(std::int64_t node) const {
    return times && (node == kSink || next_critical[node] >= 0);
  }
  [[nodiscard]] bool critical(const Edge& edge) const {
    return times && next_critical[edge.from] == edge.to &&
           times->earliest[edge.from] + edge.weight == times->earliest[edge.to];
  }
};

std::string label(const Table& table, const Dag& dag, std::int64_t node) {
  if (node == kSource) return "s";
  if (node == kSink) return "t";
  const auto& [kind, slot, lane, depth] = dag.nodes[node];
  const Task& task = table.slots[slot].task;
  const char* letter = kind == NodeKind::computed  ? "C"
                       : kind == NodeKind::reduced ? "R"
                                                   : name(kind);
  return fmt::format("{}({},{},{})", letter, task.head.value, task.kv.value, task.q.value);
}

std::string dot_edge(const Edge& edge, bool critical) {
  std::string style;
  if (edge.weight > 0) style += fmt::format("label=\"{}\", ", edge.weight);
  if (edge.kind == EdgeKind::dependency) style += "style=dashed, constraint=false, ";
  if (critical) style += "color=red, penwidth=2.5, ";
  if (!style.empty()) style.resize(style.size() - 2);
  return fmt::format("  n{} -> n{} [{}];\n", edge.from, edge.to, style);
}

}  // namespace

std::string write_dot(const Table& table, const Dag& dag) {
  const Timed timed(dag);
  std::string text =
      "digraph stagger {\n  rankdir=LR;\n  node [shape=circle, fontsize=10, margin=0.02];\n"
      "  edge [fontsize=9, arrowsize=0.6];\n";
  Lane lane{-1};
  for (std::int64_t node = 0; node < std::ssize(dag.nodes); ++node) {
    if (dag.nodes[node].lane != lane) {
      if (lane.value >= 0) text += "  }\n";
      lane = dag.nodes[node].lane;
      text += fmt::format("  subgraph cluster_{} {{\n  label=\"SM {}\"; color=gray80;\n",
                          lane.value, dag.sm_of_lane[lane].value);
    }
    std::string times;
    if (timed.times) {
      times = fmt::format("\\n{}..{}", timed.times->earliest[node], timed.times->latest[node]);
    }
    text += fmt::format("  n{} [label=\"{}{}\"{}];\n", node, label(table, dag, node), times,
                        timed.critical(node) ? ", color=red" : "");
  }
  if (lane.value >= 0) text += "  }\n";
  for (const Edge& edge : dag.edges)
    text += dot_edge(edge, timed.critical(edge));
  return text + "}\n";
}

std::string write_graphml(const Table& table, const Dag& dag) {
  const Timed timed(dag);
  std::string text =
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<graphml xmlns=\"http://graphml.graphdrawing.org/xmlns\">\n";
  const auto declare = [&](const char* element, const char* key, const char* type) {
    text += fmt::format("  <key id=\"{0}_{1}\" for=\"{0}\" attr.name=\"{1}\" attr.type=\"{2}\"/>\n",
                        element, key, type);
  };
  declare("node", "kind", "string");
  for (const char* key : {"sm", "head", "kv", "q", "depth"})
    declare("node", key, "int");
  for (const char* key : {"earliest", "latest", "slack"})
    declare("node", key, "long");
  declare("node", "critical", "boolean");
  declare("edge", "kind", "string");
  declare("edge", "weight", "long");
  declare("edge", "critical", "boolean");
  text += "  <graph id=\"stagger\" edgedefault=\"directed\">\n";
  const auto data = [&](const char* key, auto value) {
    text += fmt::format("<data key=\"{}\">{}</data>", key, value);
  };
  for (std::int64_t node = 0; node < std::ssize(dag.nodes); ++node) {
    const auto& [kind, slot, lane, depth] = dag.nodes[node];
    text += fmt::format("    <node id=\"n{}\">", node);
    data("node_kind", name(kind));
    if (slot >= 0) {
      const Task& task = table.slots[slot].task;
      data("node_sm", dag.sm_of_lane[lane].value);
      data("node_head", task.head.value);
      data("node_kv", task.kv.value);
      data("node_q", task.q.value);
    }
    data("node_depth", depth);
    if (timed.times) {
      data("node_earliest", timed.times->earliest[node]);
      data("node_latest", timed.times->latest[node]);
      data("node_slack", timed.times->slack(node));
    }
    data("node_critical", timed.critical(node));
    text += "</node>\n";
  }
  for (const Edge& edge : dag.edges) {
    text += fmt::format("    <edge source=\"n{}\" target=\"n{}\">", edge.from, edge.to);
    data("edge_kind", name(edge.kind));
    data("edge_weight", edge.weight);
    data("edge_critical", timed.critical(edge));
    text += "</edge>\n";
  }
  return text + "  </graph>\n</graphml>\n";
}

}  // namespace stagger::dag
