#pragma once

#include "core/timeline.hpp"

#include <string>

namespace stagger::sim {

struct TikzOptions {
  double width_cm = 16;  ///< the time axis
};

/// The chart of gantt_svg as a LaTeX document of its own (pdflatex, TikZ; \input works too: only
/// the picture counts inside `standalone`). Wide charts are merged to stay within TeX's memory.
[[nodiscard]] std::string gantt_tikz(const Timeline& timeline, const TikzOptions& options = {});

}  // namespace stagger::sim
