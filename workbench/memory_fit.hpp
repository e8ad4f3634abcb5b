#pragma once

#include "core/machine.hpp"
#include "core/table.hpp"
#include "core/timing.hpp"

#include <vector>

namespace stagger::workbench {

/// A table with its phases' times on a device, and what it took there.
struct MemoryRun {
  Table table;
  Timing timing;       ///< in ns, without a memory
  TileBytes tile;      ///< what its tasks touch
  Ticks measured = 0;  ///< ns from the first task's start to the last reduction's end, > 0
  int group = 0;       ///< runs of one group differ in their tables alone
};

/// The memory with which the model predicts the runs best: the least mean square of
/// predicted / measured - 1, where predictions are scaled so that of each group the run with the
/// least traffic is right, as phases have errors of their own. Deterministic. Requires two runs at
/// least, complete by their timings. Some dozens of plays of each run.
[[nodiscard]] DeviceMemory fit_memory(const std::vector<MemoryRun>& runs);

/// The tables whose runs tell what fit_memory() asks: a causal mask of 24 KV tiles with so many
/// heads that their dQ tiles are three times the L2 cache of any GPU of today, by windows of 4
/// heads to all, so that the heads in flight rise step by step. None is of the paper's grid.
[[nodiscard]] std::vector<Table> memory_calibration_set(const TileShape& tile, std::int32_t sms,
                                                        std::int64_t head_dim,
                                                        const Timing& timing);

}  // namespace stagger::workbench
