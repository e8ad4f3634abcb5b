#pragma once

#include "core/table.hpp"
#include "workbench/analysis.hpp"
#include "workbench/time_model.hpp"

#include <string>

namespace stagger::cli {

struct Options;

// What the options ask of the workbench. All throw Error.

[[nodiscard]] Problem problem_of(const Options& options);

/// Reads a table by extension (.csv or JSON; `-` is standard input, told apart by its first byte).
[[nodiscard]] Table read_table(const std::string& path, const Options& options);

/// The timing model that the options and `--machine` describe, unchecked against a problem.
[[nodiscard]] workbench::TimeModel time_model_of(const Options& options, const Problem& problem);

/// What a machine profile finds the options' kernel by, without tiles.
[[nodiscard]] KernelKey kernel_key_of(const Options& options);

/// What a replay's phases spin for, in ticks: the options alone, whatever the profile says.
[[nodiscard]] Timing spun_timing(const Options& options);

/// Builds `--schedule` or reads `--table`; applies `--ranks` and `--machine`.
[[nodiscard]] workbench::Source source_of(const Options& options);

[[nodiscard]] workbench::AnalysisOptions analysis_options(const Options& options);

}  // namespace stagger::cli
