#pragma once

#include "core/table.hpp"
#include "core/timing.hpp"

#include <cstdint>

namespace stagger::sim {

/// Where and when a lane ran. `start` is -1 for a lane that was never launched, `end` is -1 for
/// one that never ended.
struct LaneRun {
  Sm sm;
  Ticks start = -1;
  Ticks end = -1;
};

/// A table played in model time, 8 bytes a task: every other time follows (sim/played.hpp). Where a
/// task is several steps, its slots are those of the table in steps.
struct Simulation {
  bool complete = false;     ///< false: the table deadlocks
  Ticks makespan = 0;        ///< end of the last reduction or epilogue; of what ran, if incomplete
  Ticks last_reduction = 0;  ///< end of the last reduction; 0 if there was none
  IndexVector<std::int64_t, Ticks> reduce_start;  ///< by slot of the table; -1: not reached
  /// When the chain that a slot ends is reduced into dK and dV, by slot, -1 where no chain is;
  /// empty unless parts are combined in order.
  IndexVector<std::int64_t, Ticks> reduce_kv_start;
  /// When a slot's compute phase starts that may have waited for its tiles, by slot; empty unless
  /// the table was played with its memory (sim/memory.hpp).
  IndexVector<std::int64_t, Ticks> compute_start;
  /// What a slot's compute phase takes longer, as the clock dips, by slot; empty unless the table
  /// was played with such a memory.
  IndexVector<std::int64_t, Ticks> compute_longer;
  IndexVector<Lane, LaneRun> lanes;
};

/// Plays a table. Each lane follows the rule of sim/lane_clock.hpp; a slot's turn to reduce is the
/// release of the rank before plus the latency, and at once for rank 0. At most `residency` lanes
/// run at once; the next one in order starts when one has ended.
///
/// Requires tasks in range. The table may be wrong in any other way: a lane stays at a task whose
/// turn never comes. O(tasks + lanes log lanes) expected time, scratch memory for locks and lanes
/// only. Source: DASH section 3.1; the overlap model is FlashAttention-3's dQ-writer warp.
[[nodiscard]] Simulation simulate(const Table& table, const Timing& timing);

}  // namespace stagger::sim
