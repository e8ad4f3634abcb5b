#pragma once

#include "core/table.hpp"
#include "core/timing.hpp"
#include "dag/packing.hpp"

#include <string>
#include <vector>

namespace stagger::dag {

/// A makespan that no table of the problem can go below, and why.
struct Bound {
  const char* by = "";  ///< "work", "chain", "packing", "accumulation", "dkv" or "traffic"
  Ticks ticks = 0;
  const char* why = "";
};

struct Bounds {
  std::vector<Bound> all;     ///< valid in the timing model given, in the order above
  Bound best;                 ///< largest_of(all)
  bool packing_exact = true;  ///< the packing bound is the optimum of its relaxation
  /// The degree bound of the slot model (a task takes one round, no two of a dQ tile the same), in
  /// rounds. It is no bound in the other models.
  std::int64_t degree_rounds = 0;
};

/// The first of the largest. Requires one.
[[nodiscard]] Bound largest_of(const std::vector<Bound>& bounds);

/// Lower bounds over all tables of a problem under a kind of dispatch (in the overlap model static
/// dispatch hides the writer's drain between chains, and so does any with a `next_lane`).
///
/// chain    a lane of chains d_1 … d_K takes sum(launch + d_k (c+r) + epilogue), with d_k the live
///          tiles of all heads of a chain, and an epilogue that has the reduction into dK and dV in
///          it where the SM does that
/// overlap  in-order: sum(launch + c + (d_k-1) max(c,r) + r + epilogue); where the writer
///          drains: within a chain max(c,r) a task, between chains max(epilogue + launch + c, r)
/// work is the average over the SMs, chain the longest chain, packing P || Cmax over whole chains;
/// accumulation the k reductions of one dQ tile one after the other, of which at most S are on
/// their SM's first (last) chain.
/// dkv, where parts are combined in order: the reductions of one KV tile's parts, after a chain.
/// traffic, with a memory: the bytes of dag/traffic.hpp at its rate.
/// Where a task is several steps, those of the steps.
/// Where `stop` cuts the packing short its bound is a lower one.
/// O(chains log chains). Source: dag/README.md.
[[nodiscard]] Bounds lower_bounds(
    const Problem& problem, const Timing& timing, Dispatch dispatch,
    const Stop& stop = [] { return false; });

}  // namespace stagger::dag
