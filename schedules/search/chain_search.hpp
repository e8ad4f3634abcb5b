#pragma once

#include "core/table.hpp"
#include "core/timing.hpp"

#include <cstdint>
#include <functional>
#include <optional>

namespace stagger::search {

/// Tasks and Q tiles that the search takes at most.
inline constexpr std::int64_t kExactTasks = 64;

/// What an exhaustive search found.
struct ChainSearch {
  bool complete = false;       ///< every table was considered: nothing below `below` is left out
  std::optional<Table> table;  ///< the best one below `below`, if there is one
  Ticks makespan = 0;          ///< its makespan
  std::int64_t nodes = 0;
};

/// Searches all static tables in the chain model (immediate release) for one whose makespan is
/// below `below`, and the best such. Depth first over the order in which reductions start; a state
/// that was searched before is not searched again; interchangeable SMs, heads and equal rows are
/// tried once. Stops at `at_least`, a proven lower bound, at `nodes` nodes and when `stop()` is
/// true. Requires the chain model, immediate release and at most kExactTasks tasks. Exponential;
/// about 100 bytes a state. Source: semi-active schedules, Baker 1974; every optimum has one.
[[nodiscard]] ChainSearch search_chains(const Problem& problem, const Timing& timing, Ticks below,
                                        Ticks at_least, std::int64_t nodes,
                                        const std::function<bool()>& stop);

}  // namespace stagger::search
