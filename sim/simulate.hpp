#pragma once

#include "core/table.hpp"
#include "core/timing.hpp"

#include <vector>

namespace stagger::sim {

/// Where and when a lane ran. `start` is -1 for a lane that was never launched, `end` is -1 for
/// one that never ended.
struct LaneRun {
  Sm sm;
  Ticks start = -1;
  Ticks end = -1;
};

/// A table played in model time, as compact arrays: 16 bytes a task.
struct Simulation {
  bool complete = false;  ///< false: the table deadlocks; times of tasks not reached are -1
  Ticks makespan = 0;     ///< end of the last reduction or epilogue; of what ran, if incomplete
  std::vector<Ticks> compute_start;  ///< by slot of the table
  std::vector<Ticks> reduce_start;   ///< by slot of the table
  std::vector<LaneRun> lanes;        ///< by lane
};

/// Plays a table.
///
///   chain    reduce k starts at max(its compute's end, its turn); compute k+1 when reduce k ends
///   overlap  task k is handed over at max(its compute's end, end of reduce k-1); compute k+1
///            starts then; reduce k starts at max(hand-over, its turn)
///   turn     the release of the rank before, plus the latency; at once for rank 0
/// A chain's end frees the SM at the last reduction's end plus the epilogue; in the overlap model
/// with static dispatch at the last hand-over plus the epilogue, while the writer drains.
/// At most `residency` lanes run at once; the next one in order starts when one has ended.
///
/// Requires live tasks with ranks 0 … k-1 for every (head, q): what dag::verify finds nothing
/// wrong with but a deadlock. O(tasks + lanes log lanes) time, 4 bytes a task of scratch memory.
/// Source: DASH section 3.1; the overlap model is FlashAttention-3's dQ-writer warp.
[[nodiscard]] Simulation simulate(const Table& table, const Timing& timing);

}  // namespace stagger::sim
