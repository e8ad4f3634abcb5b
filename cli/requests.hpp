#pragma once

#include "core/table.hpp"
#include "workbench/analysis.hpp"
#include "workbench/execution.hpp"
#include "workbench/optimization.hpp"
#include "workbench/time_model.hpp"

#include <string>

namespace stagger::cli {

struct Options;

// What the options ask of the workbench. All throw Error.

[[nodiscard]] Problem problem_of(const Options& options);

/// Throws Error{usage} if `--invariant` is asked for where `--span auto` would move the order.
void expect_fixed_span(const Options& options, const Problem& problem);

/// Reads a table by extension (.csv or JSON; `-` is standard input, told apart by its first byte).
[[nodiscard]] Table read_table(const std::string& path, const Options& options);

/// The timing model that the options and `--machine` describe, unchecked against a problem.
[[nodiscard]] workbench::TimeModel time_model_of(const Options& options, const Problem& problem);

[[nodiscard]] workbench::TimeRequest time_request(const Options& options);

inline void expect_any(const Problem&) {}

/// Builds `--schedule` or reads `--table`; applies `--ranks` and `--machine`. `expect` throws Error
/// of a problem that the command refuses: before its table is built.
[[nodiscard]] workbench::Source source_of(const Options& options,
                                          void (*expect)(const Problem&) = expect_any);

[[nodiscard]] workbench::AnalysisOptions analysis_options(const Options& options);

/// All of it but the progress, of any table or of what source_of() gives.
[[nodiscard]] workbench::ExecutionRequest execution_request(const Options& options,
                                                            workbench::Source source);

/// How `optimize` searches: all but the problem, the model and the progress.
[[nodiscard]] workbench::OptimizationRequest search_request(const Options& options);

}  // namespace stagger::cli
