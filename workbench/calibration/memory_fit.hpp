#pragma once

#include "core/machine.hpp"
#include "core/table.hpp"
#include "core/timing.hpp"
#include "workbench/calibration/calibration.hpp"

#include <functional>
#include <vector>

namespace stagger::workbench {

/// A table with its phases' times on a device, and what it took there.
struct MemoryRun {
  Table table;
  /// In ns, with a memory whose size and rate are to be found.
  Timing timing;
  Ticks measured = 0;  ///< ns from the first task's start to the last reduction's end, > 0
  int group = 0;       ///< runs of one group differ in their tables alone
};

struct MemoryCalibration {
  DeviceMemory memory;              ///< without date and command
  std::vector<Residual> residuals;  ///< of the runs, in their order
};

/// What additions take of a memory's channels where no profile says so: what the H200's do. Tables
/// of one kind, as those below are, do not tell it from the rate.
inline constexpr std::int64_t kAddPermille = 1'574;

/// Told how much of the fit is done, 0 to 1.
using FitProgress = std::function<void(double fraction)>;

/// The memory with which the model predicts the runs best: the least mean square of
/// predicted / measured - 1, where predictions are scaled so that of each group the runs with
/// little traffic are right in the median, as phases have errors of their own. Deterministic.
/// Requires two runs at least, of tables that do not hang, with one latency and additions that take
/// as much. Some 300 plays of each run, on all cores.
[[nodiscard]] MemoryCalibration fit_memory(const std::vector<MemoryRun>& runs,
                                           const FitProgress& progress = {});

/// The tables whose runs tell what fit_memory() asks: causal masks of 24 and of 72 KV tiles with so
/// many heads that their dQ tiles are three times the L2 cache of any GPU of today, by windows of 2
/// heads to all, so that the heads in flight rise step by step. Tables of one problem are next to
/// each other. None is of the paper's grid.
[[nodiscard]] std::vector<Table> memory_calibration_set(const TileShape& tile, std::int32_t sms,
                                                        std::int64_t head_dim,
                                                        const Timing& timing);

}  // namespace stagger::workbench
