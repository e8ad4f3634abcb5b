#pragma once

#include "core/timeline.hpp"

#include <string>

namespace stagger::sim {

/// Perfetto's own trace (`.pftrace`), which its viewer reads without dropping what a browser's JSON
/// leaves open: a track for each SM, below it one of its compute phases (and launches, epilogues)
/// and one of its dQ writer (waits, reductions), so that no two slices of a track overlap; arrows
/// along the critical path from SM to SM. One tick is shown as 1 µs; measured times are exact.
/// Throws Error{limit} where times do not fit its nanoseconds.
/// Source: protos/perfetto/trace of google/perfetto.
[[nodiscard]] std::string perfetto_trace(const Timeline& timeline);

}  // namespace stagger::sim
