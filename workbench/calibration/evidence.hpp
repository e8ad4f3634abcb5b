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

/// How long a table took by its ranks; times are in ns, less what stamps cost where that is known.
struct TimedTable {
  Table table;
  Ticks span = 0;    ///< from the first task's start to the last reduction's end
  Ticks whole = 0;   ///< of the whole run, its passes too
  Ticks passes = 0;  ///< over whole tensors, before and after the kernel; 0: there are none
  std::int64_t q_elements = 0;  ///< CalibrationRun::q_elements
  bool tells = false;           ///< CalibrationRun::tells
};

/// What a kernel was measured to do: all that its phases are found by.
struct Evidence {
  /// What the times of single tasks say. `latency` is of hand-overs with what chance adds to them,
  /// `spread` is as their quartiles show it; what whole runs alone tell is not in it.
  KernelTimes shown;
  /// From the end of a part of dK and dV to that of the next, which waited for it; without samples:
  /// no run adds parts in order.
  MeasuredNs parts;
  std::int64_t parts_load = 0;     ///< gpu::PhaseSamples::parts_load of those, in the mean
  std::vector<TimedTable> tables;  ///< those whose makespans are predicted
};

/// Takes apart runs on a device. Of a task that is several steps a turn and a reduction's end are
/// those of its last one. Requires a run by the ranks at least, all finished, with immediate
/// release. O(tasks log tasks).
[[nodiscard]] Evidence evidence_of(const std::vector<CalibrationRun>& runs, Model model,
                                   std::int32_t steps = 1);

/// From the first compute phase to the last reduction of a run by its times, less what they cost
/// where that is known (`untimed_ns`).
[[nodiscard]] Ticks span_of(const gpu::Backward& run);

}  // namespace stagger::workbench
