#pragma once

#include "core/timeline.hpp"

#include <string>

namespace stagger::sim {

/// Chrome's trace-event JSON, for Perfetto and chrome://tracing: a process per SM, thread 0 its
/// compute phases (and launches, epilogues), thread 1 its dQ writer (waits, reductions), so that
/// no two events of a thread overlap. One tick is shown as 1 µs; measured times are exact.
[[nodiscard]] std::string trace_json(const Timeline& timeline);

}  // namespace stagger::sim
