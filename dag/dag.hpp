#pragma once

#include "core/table.hpp"
#include "core/timeline.hpp"
#include "core/timing.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace stagger::dag {

/// What has happened at a node.
enum class NodeKind {
  source,
  sink,
  dispatched,  ///< the lane has its SM (only for lanes that wait for one)
  launched,    ///< a chain's launch is over (only if launch > 0)
  computed,    ///< compute is over; in the chain model the reduction starts here, in the overlap
               ///< model the task is handed over to the writer
  turn,        ///< overlap model: the reduction starts
  reduced,     ///< the reduction is over
  kv_turn,     ///< the chain's reduction into dK and dV starts (only where parts are combined in
               ///< order)
  combined,    ///< it is over
  written,     ///< a chain's epilogue is over (only if epilogue > 0)
};

/// What an edge's weight stands for.
enum class EdgeKind {
  launch,
  compute,
  reduce,
  reduce_kv,
  epilogue,
  order,       ///< zero weight within a lane: hand-over, writer free, chain to sink
  dependency,  ///< end of rank k's reduction (its release) to the start of rank k+1's, into a dQ
               ///< tile or into a KV tile's dK and dV; weight is the latency (plus reduce/2 if the
               ///< release is delayed)
  dispatch,    ///< end of a lane to the start of the lane that takes its SM; weight is what the
               ///< SM takes to take that one (Timing::next_lane), from the lane's last reduction
};

struct Node {
  NodeKind kind = NodeKind::source;
  std::int64_t slot = -1;  ///< index into Table::slots; -1 for source and sink
  Lane lane{-1};
  std::int32_t depth = 0;  ///< edges from the source along the node's own lane
};

struct Edge {
  std::int64_t from = 0;
  std::int64_t to = 0;
  Ticks weight = 0;
  EdgeKind kind = EdgeKind::order;
};

/// The graph of a table. Node 0 is the source s, node 1 the sink t. In the chain model task p of a
/// lane has the nodes `computed` and `reduced` at depths 2p+1 and 2p+2 (if nothing is launched or
/// written).
struct Dag {
  IndexVector<std::int64_t, Node> nodes;
  IndexVector<std::int64_t, Edge> edges;  ///< dependency edges last, from `first_dependency` on
  std::int64_t first_dependency = 0;
  IndexVector<Lane, Sm> sm_of_lane;  ///< where each lane runs
};

inline constexpr std::int64_t kSource = 0;
inline constexpr std::int64_t kSink = 1;

/// Whether a graph is worth building unasked: up to 100,000 tasks (200 to 300 bytes each) and a
/// second or two of rounds for lanes that wait for an SM.
[[nodiscard]] bool is_graph_cheap(const Table& table, const Timing& timing);

/// Builds the graph. Lanes that wait for an SM (in-order dispatch, residency) start at the least
/// fixed point of "lane b starts when b - R + 1 of the lanes before it have ended", which needs no
/// simulation; nullopt if there is none: the dispatch deadlocks. A table with all lanes resident
/// always has a graph, cyclic if it deadlocks.
/// Requires tasks in range with ranks 0 … k-1 for every (head, q), and a table that plays_itself().
/// O(tasks) times the rounds to the fixed point (about lanes / SMs; up to the makespan in ticks for
/// a deadlock).
[[nodiscard]] std::optional<Dag> build(const Table& table, const Timing& timing);

/// Returns the graph without its dependency edges (the paper's G0).
[[nodiscard]] Dag without_dependencies(const Dag& dag);

}  // namespace stagger::dag
