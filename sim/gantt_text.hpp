#pragma once

#include "core/timeline.hpp"

#include <string>

namespace stagger::sim {

// A sample: causal, 4 x 4 tiles, 2 heads, symmetric shift, 60 columns.
//
//   SM 0  1░░░░█2░░░░█3░░░░█0░░░░█3░░░░█
//   SM 1  2░░░░█3░░░░█1░░░░█3░░░░█2░░░░█
//   SM 2  1▒▒▒▒█2▒▒▒▒█3▒▒▒▒█0▒▒▒▒█3▒▒▒▒█
//   SM 3  2▒▒▒▒█3▒▒▒▒█1▒▒▒▒█3▒▒▒▒█2▒▒▒▒█
//         |    |    |    |    |    |    |
//         0    5    10   15   20   25   30 ticks
//
// Legend: a digit is the Q tile whose compute phase begins there, ░ and ▒ go on with it (heads
// 0, 2, 4 … and 1, 3, 5 …), █ is a reduction into dQ, · a wait for its turn, < a launch, > an
// epilogue. A column stands for as many ticks as the line below the axis says and shows the phase
// that has most of it.
// Reading: no dots, so nobody waits; SM 1 reduces Q tile 2 just before SM 0 does.

struct TextOptions {
  int width = 80;  ///< columns, at least 20; no line is longer
  bool unicode = true;
  bool color = false;  ///< ANSI colours by head
  int max_rows = 0;    ///< SMs shown, the middle ones are left out; 0 = all
};

/// A Gantt chart for the terminal, one row per SM; two in the overlap model, where compute (above)
/// and reductions (below) run at the same time.
[[nodiscard]] std::string gantt_text(const Timeline& timeline, const TextOptions& options = {});

}  // namespace stagger::sim
