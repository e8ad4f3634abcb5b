#pragma once

#include "core/problem.hpp"
#include "core/timing.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace stagger {

enum class Phase { launch, compute, wait, reduce, reduce_kv, epilogue };

inline constexpr const char* kPhaseNames[] = {"launch", "compute",   "wait",
                                              "reduce", "reduce-kv", "epilogue"};
[[nodiscard]] constexpr const char* phase_name(Phase phase) {
  return kPhaseNames[static_cast<int>(phase)];
}

/// One phase of one task on one SM, [start, end) in the timeline's clock. A launch or an epilogue
/// carries its chain's first or last task, and so does a reduction into dK and dV, with its rank
/// among the parts; a wait is the time between being ready to reduce and the turn.
struct Interval {
  Sm sm;
  Task task;
  Phase phase = Phase::compute;
  Ticks start = 0;
  Ticks end = 0;
  std::int32_t rank = 0;   ///< the task's
  bool critical = false;   ///< on the critical path that is marked
  std::int32_t layer = 0;  ///< the timeline it is from, in an overlay

  friend bool operator==(const Interval&, const Interval&) = default;
};

/// The order of a timeline: by SM and layer, then by start, a wait before the reduction that ends
/// it.
[[nodiscard]] inline bool precedes(const Interval& left, const Interval& right) {
  return std::tie(left.sm, left.layer, left.start, left.phase) <
         std::tie(right.sm, right.layer, right.start, right.phase);
}

/// One of the timelines that an overlay shows.
struct TimelineLayer {
  std::string name;      ///< "predicted" or "measured on …"
  std::string tag = {};  ///< a letter or a digit
  Ticks makespan = 0;
  bool hangs = false;
};

/// What the curve of dQ tiles in flight is drawn in and beside.
struct DqMemory {
  std::int64_t tile_bytes = 0;  ///< of a tile's fp32 sums, > 0
  std::int64_t l2_bytes = 0;    ///< that stay in the L2 cache, > 0

  friend bool operator==(const DqMemory&, const DqMemory&) = default;
};

/// What every SM did when: predicted (ticks) or measured (ns). Intervals are in their order. In the
/// overlap model the reductions of an SM run beside its next compute phases.
struct Timeline {
  std::string clock =
      "ticks";              ///< "ticks", parts of one as "ticks/5" (core/time_unit.hpp), or "ns"
  std::string device = {};  ///< empty if predicted
  std::int32_t sms = 0;
  std::int32_t heads = 0;
  Ticks makespan = 0;
  Ticks lower_bound = 0;  ///< 0 if unknown
  bool hangs = false;     ///< what waits at the end waits for ever
  std::string title = {};
  std::optional<DqMemory> dq = {};  ///< absent: no curve is drawn
  std::vector<Interval> intervals = {};
  std::vector<TimelineLayer> layers = {};  ///< what an overlay (sim/overlay.hpp) is made of

  /// What its end is called.
  [[nodiscard]] const char* end_words() const { return hangs ? "hangs after" : "makespan"; }
  /// The rows that an SM has in a picture: one for each layer.
  [[nodiscard]] std::int32_t rows_per_sm() const {
    return layers.empty() ? 1 : static_cast<std::int32_t>(layers.size());
  }
  [[nodiscard]] std::int64_t rows() const { return std::int64_t{sms} * rows_per_sm(); }
  [[nodiscard]] std::int32_t row_of(const Interval& interval) const {
    return interval.sm.value * rows_per_sm() + interval.layer;
  }
};

/// One step of a critical path.
struct CriticalStep {
  Sm sm;
  Task task;
  Phase phase = Phase::compute;
  Ticks start = 0;
  Ticks end = 0;
};

/// A longest path from source to sink: its steps in time order. Zero-weight edges are left out.
struct CriticalPath {
  Ticks length = 0;
  std::vector<CriticalStep> steps;
};

}  // namespace stagger
