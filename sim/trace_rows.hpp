#pragma once

#include "core/timeline.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace stagger::sim {

// What traces of every format have in common.

/// `predicted`, `measured, device NVIDIA H200`; of an overlay whether it has the one, the other or
/// both.
[[nodiscard]] std::string origin_words(const Timeline& timeline);

/// What of a tick a trace shows as a microsecond: `one` tick in words, or `1/5 tick`. Requires a
/// clock of ticks.
[[nodiscard]] std::string unit_shown(const Timeline& timeline, const char* one);

/// `SM 003`; in an overlay also the row's timeline: `SM 003 predicted`, with its tag where others
/// are named the same.
[[nodiscard]] std::string row_name(const Timeline& timeline, std::int32_t row);

/// A thread of a trace: what a row computes, or its dQ writer.
struct TraceThread {
  std::int32_t row = 0;
  std::int32_t place = 0;   ///< among its row's: 0 computes, 1 writes, more where those overlap
  std::int32_t number = 1;  ///< among those of its row and kind
  bool writes = false;

  /// `compute`, or what the writer is called; `compute 2`.
  [[nodiscard]] std::string name(const char* writer) const;
};

/// All threads, and which one each interval is in. Intervals of a thread do not overlap: those of
/// several programs on one SM, or of a clock that is a little off, are in threads of their own.
struct TraceThreads {
  std::vector<TraceThread> threads = {};  ///< two a row, by row; then those for what overlaps
  std::vector<std::int32_t> of = {};      ///< by interval

  [[nodiscard]] const TraceThread& thread_of(std::int64_t interval) const;
};

/// Requires intervals by row and start. O(intervals * threads of a row).
[[nodiscard]] TraceThreads threads_of(const Timeline& timeline);

}  // namespace stagger::sim
