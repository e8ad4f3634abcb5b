#pragma once

#include "cli/analysis.hpp"
#include "cli/terminal.hpp"

#include <string>

namespace stagger::cli {

/// `stagger.report/1`. `steps` says whether to list the critical path's steps.
[[nodiscard]] std::string report_json(const Analysis& analysis, bool steps);

/// One element of `stagger.compare/1`'s rows for a schedule that does not apply.
[[nodiscard]] std::string unsupported_json(const std::string& schedule, const std::string& reason);

/// `{"…": …}` of a problem and of a timing model, as every schema holds them.
[[nodiscard]] std::string problem_json(const Problem& problem);
[[nodiscard]] std::string timing_json(const Problem& problem, const Timing& timing);

/// The whole report for people.
[[nodiscard]] std::string report_text(const Analysis& analysis, const Terminal& terminal);

/// One line: `causal, 8 KV x 8 Q tiles, 4 heads on 8 SMs: 144 tasks`.
[[nodiscard]] std::string problem_line(const Problem& problem);
/// One line: `chain model, compute 5, reduce 1`.
[[nodiscard]] std::string timing_line(const Timing& timing);
/// `12.5 %`, of a part and a positive whole.
[[nodiscard]] std::string percent(Ticks part, Ticks whole);

}  // namespace stagger::cli
