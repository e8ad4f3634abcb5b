#pragma once

#include "core/machine.hpp"
#include "workbench/calibration/evidence.hpp"

#include <vector>

namespace stagger::workbench {

/// How well a timing model predicts a table.
struct Residual {
  Ticks measured = 0;   ///< ns: TimedTable::span
  Ticks predicted = 0;  ///< the same, simulated
};

struct Calibration {
  KernelTimes times;                ///< without date and command
  std::vector<Residual> residuals;  ///< of the tables, in their order
};

/// The phases of a kernel: what the times of tasks show, then integer ns that predict the tables'
/// makespans better, of those that tell, as far as they stay near that; for each of a few spreads
/// of hand-overs, of which the one is kept by which that is best. What passes take is found where
/// runs have some and one is of four times the elements of another, and what a part of dK and dV
/// takes where runs add those in order, of which nothing else is asked. Deterministic. Requires a
/// table. O(tasks) for each of some hundred simulations a spread.
[[nodiscard]] Calibration calibrate(const Evidence& evidence);

}  // namespace stagger::workbench
