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
/// One line: `chain, compute 5, reduce 1 ticks`.
[[nodiscard]] std::string model_line(const workbench::TimeModel& model);
/// One line: `h200 (NVIDIA H200): replay`; of a model in ns.
[[nodiscard]] std::string machine_line(const workbench::TimeModel& model);

}  // namespace stagger::cli
