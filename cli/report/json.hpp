#pragma once

#include "cli/expect.hpp"
#include "workbench/analysis.hpp"

#include <span>
#include <string>
#include <vector>

namespace stagger::cli {

/// `stagger.report/1`. `steps` says whether to list the critical path's steps; what was expected is
/// listed if something was.
[[nodiscard]] std::string report_json(const workbench::Analysis& analysis, bool steps,
                                      std::span<const Judgement> judgements = {});

/// One element of `stagger.compare/1`'s rows for a schedule that does not apply.
[[nodiscard]] std::string unsupported_json(const std::string& schedule, const std::string& reason);

/// `{"…": …}` of a problem and of a timing model, as every schema holds them.
[[nodiscard]] std::string problem_json(const Problem& problem);
[[nodiscard]] std::string model_json(const Problem& problem, const workbench::TimeModel& model);

/// What became of an --expect: `{"text", "holds", "values"}`.
[[nodiscard]] std::string judgements_json(std::span<const Judgement> judgements);

/// Parts of every report: where a table is from, what verification found, who waits for whom, and
/// the Q tiles that hang, by head.
[[nodiscard]] std::string schedule_json(const workbench::Analysis& analysis);
[[nodiscard]] std::string findings_json(const workbench::Analysis& analysis);
[[nodiscard]] std::string waits_json(const std::vector<Wait>& waits, Dispatch dispatch);
[[nodiscard]] std::string hanging_json(const std::vector<dag::Liveness::Hanging>& hanging);

}  // namespace stagger::cli
