#pragma once

#include "cli/terminal.hpp"
#include "workbench/analysis.hpp"

#include <string>
#include <vector>

namespace stagger::cli {

/// The whole report for people.
[[nodiscard]] std::string report_text(const workbench::Analysis& analysis,
                                      const Terminal& terminal);

/// One line: `spt (in-order dispatch; FlashAttention-3)`.
[[nodiscard]] std::string schedule_line(const workbench::Summary& summary);
/// One line: `head 0: 3-7 hang, 0-2 finish`.
[[nodiscard]] std::string hanging_line(const Problem& problem,
                                       const std::vector<dag::Liveness::Hanging>& hanging);
/// How many heads a chain has, how its parts come together, and what the rule says.
[[nodiscard]] std::string span_line(const Problem& problem);

}  // namespace stagger::cli
