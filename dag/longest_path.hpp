#pragma once

#include "core/timeline.hpp"
#include "dag/dag.hpp"

#include <optional>
#include <vector>

namespace stagger::dag {

/// A graph's nodes in topological order. Weights may change between calls, edges may not.
class Relaxation {
 public:
  /// nullopt if the graph has a cycle. O(nodes + edges).
  [[nodiscard]] static std::optional<Relaxation> of(const Dag& dag);

  /// Returns each node's longest path from the source. O(nodes + edges).
  [[nodiscard]] IndexVector<std::int64_t, Ticks> earliest(const Dag& dag) const;
  /// Returns, for each node, `length` minus its longest path to the sink. O(nodes + edges).
  [[nodiscard]] IndexVector<std::int64_t, Ticks> latest(const Dag& dag, Ticks length) const;

 private:
  std::vector<std::size_t> edges_;  ///< in topological order of the nodes they leave
};

/// Longest-path times of every node.
struct PathTimes {
  Ticks length = 0;                           ///< the longest path from source to sink
  IndexVector<std::int64_t, Ticks> earliest;  ///< each node's longest path from the source
  IndexVector<std::int64_t, Ticks> latest;    ///< `length` minus its longest path to the sink
  /// How long a node can be late without making the critical path longer.
  [[nodiscard]] Ticks slack(std::int64_t node) const { return latest[node] - earliest[node]; }
};

/// nullopt if the graph has a cycle. O(nodes + edges).
[[nodiscard]] std::optional<PathTimes> path_times(const Dag& dag);

/// The nodes of one longest path from source to sink; within a lane rather than across.
[[nodiscard]] std::vector<std::int64_t> critical_nodes(const Dag& dag, const PathTimes& times);

/// One longest path as the phases along it. A dependency's latency is a `wait` step.
[[nodiscard]] CriticalPath critical_path(const Table& table, const Dag& dag,
                                         const PathTimes& times);

}  // namespace stagger::dag
