#pragma once

#include "dag/dag.hpp"

#include <string>

namespace stagger::dag {

/// Graphviz: a row of nodes per lane, dependency edges dashed, one critical path red and bold.
/// A graph with a cycle is written without times.
[[nodiscard]] std::string write_dot(const Table& table, const Dag& dag);

/// GraphML with the attributes kind, sm, head, kv, q, depth, earliest, latest, slack, critical of
/// nodes and kind, weight, critical of edges.
[[nodiscard]] std::string write_graphml(const Table& table, const Dag& dag);

}  // namespace stagger::dag
