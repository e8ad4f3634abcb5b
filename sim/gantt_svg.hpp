#pragma once

#include "core/timeline.hpp"

#include <string>

namespace stagger::sim {

struct SvgOptions {
  double width = 960;  ///< pixels of the whole picture
};

/// A Gantt chart fit for print: one row per SM, heads by colour, reductions darker and hatched, Q
/// tiles in the boxes where they fit, waits as gaps, the critical path outlined in black and
/// joined from SM to SM, makespan and lower bound as lines. In the overlap model compute is the
/// upper half of a row and the reductions are the lower one.
[[nodiscard]] std::string gantt_svg(const Timeline& timeline, const SvgOptions& options = {});

}  // namespace stagger::sim
