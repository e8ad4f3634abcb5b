#pragma once

#include "core/table.hpp"
#include "core/timing.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace stagger::dag {

/// A dependency edge from the end of `from`'s reduction to the start of `to`'s.
struct DependencyEdge {
  Task from;
  Task to;
  bool dkv = false;             ///< of the chains that they end, into dK and dV
  std::int64_t depth_from = 0;  ///< 2p+2 of reduction p of its lane
  std::int64_t depth_to = 0;    ///< 2p+1
  Ticks earliest_from = 0;      ///< without dependency edges; 0 where only depths are compared
  Ticks latest_to = 0;
};

/// Lemma 1 of DASH on a table: on parallel isomorphic chains, dependency edges leave the critical
/// path as it is if and only if none goes from a larger depth to a smaller one.
struct Lemma1 {
  bool premise = false;       ///< the lanes are parallel isomorphic chains, edges weigh 0
  std::string premise_fails;  ///< why not; empty if the premise holds
  bool monotone = true;       ///< no edge decreases the depth
  std::int64_t dependency_edges = 0;
  std::int64_t violation_count = 0;
  std::vector<DependencyEdge> violations;  ///< depth-decreasing edges, at most `limit`

  /// Where the premise fails, an edge (u, v) alone is harmless if and only if
  /// earliest(u) + weight <= latest(v) in the graph without dependency edges. The ones that are
  /// not, at most `limit`; nullopt if the premise holds or the graph is not to be built.
  std::optional<std::vector<DependencyEdge>> harmful;
  std::int64_t harmful_count = 0;
};

/// Requires a table that `verify` finds ok and that plays_itself(). Depths take O(tasks); `harmful`
/// builds the graph, if that is wanted. Source: DASH Lemma 1 and its appendix B.
[[nodiscard]] Lemma1 check_lemma1(const Table& table, const Timing& timing, std::int64_t limit,
                                  bool build_graph);

}  // namespace stagger::dag
