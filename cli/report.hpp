#pragma once

#include "cli/analysis.hpp"
#include "cli/terminal.hpp"

#include <string>
#include <vector>

namespace stagger::cli {

/// `stagger.report/1`. `steps` says whether to list the critical path's steps.
[[nodiscard]] std::string report_json(const Analysis& analysis, bool steps);

/// One element of `stagger.compare/1`'s rows for a schedule that does not apply.
[[nodiscard]] std::string unsupported_json(const std::string& schedule, const std::string& reason);

/// `{"…": …}` of a problem and of a timing model, as every schema holds them.
[[nodiscard]] std::string problem_json(const Problem& problem);
[[nodiscard]] std::string model_json(const Problem& problem, const TimeModel& model);

/// Parts of every report: where a table is from, what verification found, who waits for whom, and
/// the Q tiles that hang, by head.
[[nodiscard]] std::string schedule_json(const Analysis& analysis);
[[nodiscard]] std::string findings_json(const Analysis& analysis);
[[nodiscard]] std::string waits_json(const std::vector<Wait>& waits, Dispatch dispatch);
[[nodiscard]] std::string hanging_json(const std::vector<dag::Liveness::Hanging>& hanging);

/// The whole report for people.
[[nodiscard]] std::string report_text(const Analysis& analysis, const Terminal& terminal);

/// One line: `causal, 8 KV x 8 Q tiles, 4 heads on 8 SMs: 144 tasks`.
[[nodiscard]] std::string problem_line(const Problem& problem);
/// One line: `spt (in-order dispatch; FlashAttention-3)`.
[[nodiscard]] std::string schedule_line(const Analysis& analysis);
/// One line: `head 0: 3-7 hang, 0-2 finish`.
[[nodiscard]] std::string hanging_line(const Problem& problem,
                                       const std::vector<dag::Liveness::Hanging>& hanging);
/// One line: `chain, compute 5, reduce 1 ticks`.
[[nodiscard]] std::string model_line(const TimeModel& model);
/// One line: `h200 (NVIDIA H200): replay`; of a model in ns.
[[nodiscard]] std::string machine_line(const TimeModel& model);
/// `12.5 %`, of a part and a positive whole.
[[nodiscard]] std::string percent(Ticks part, Ticks whole);

}  // namespace stagger::cli
