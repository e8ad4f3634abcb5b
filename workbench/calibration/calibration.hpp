#pragma once

#include "core/machine.hpp"
#include "core/table.hpp"
#include "gpu/check/backward.hpp"

#include <cstdint>
#include <vector>

namespace stagger::workbench {

/// One table of a calibration and its run, by the ranks or without reductions.
struct CalibrationRun {
  Table table;
  gpu::Mode mode = gpu::Mode::deterministic;
  gpu::Backward run;
  std::int64_t q_elements = 0;  ///< heads * seq_q * head_dim; 0: the kernel does no arithmetic
  /// Whether its makespan tells the phases: that of a small run by a rule is much of it start and
  /// end. Where no run's does, those of all do.
  bool tells = false;
};

/// How well a timing model predicts one of them.
struct Residual {
  Ticks measured = 0;   ///< ns from the first task's start to the last reduction's end (span_of)
  Ticks predicted = 0;  ///< the same, simulated
};

struct Calibration {
  KernelTimes times;                ///< without key, date and command
  std::vector<Residual> residuals;  ///< of the runs by the ranks, in their order
};

/// The phases of a kernel from measured runs: interquartile means of what the tasks' times show
/// directly (gpu/check/phase_samples.hpp), then integer ns that predict the runs' makespans better,
/// of those that tell, as far as they stay near those; for each of a few spreads of hand-overs, of
/// which the one is kept by which that is best. What passes take is found where runs have some
/// (`passes_ns`) and one is of four times the elements of another. Deterministic. Requires a run by
/// the ranks at least, all finished, with immediate release. What a part of dK and dV takes is
/// found where runs add those in order, of which nothing else is asked. Of a task that is several
/// steps a turn and a reduction's end are those of its last one. O(tasks) for each of some hundred
/// simulations a spread.
[[nodiscard]] Calibration calibrate(const std::vector<CalibrationRun>& runs, Model model,
                                    std::int32_t steps = 1);

/// Whether a run is there for its parts of dK and dV alone, which it adds in order.
[[nodiscard]] bool tells_parts(const CalibrationRun& run);
/// Whether a run's makespan is predicted: it is by the ranks, and not one of those.
[[nodiscard]] bool counts(const CalibrationRun& run);

/// From the first compute phase to the last reduction of a run by its times, less what they cost
/// where that is known (`untimed_ns`).
[[nodiscard]] Ticks span_of(const gpu::Backward& run);

}  // namespace stagger::workbench
