#pragma once

#include "cli/options.hpp"
#include "cli/terminal.hpp"
#include "workbench/designs/analysis.hpp"

#include <optional>
#include <vector>

namespace stagger::cli {

// What `--design` and `--designs` ask for. All throw Error.

/// The problem, the timing model and the schedule of the options.
[[nodiscard]] designs::Request design_request(const Options& options);

/// `--design`, played, and the problem that it is of.
struct PlayedDesign {
  Problem problem;
  designs::Analysis analysis;
};
[[nodiscard]] PlayedDesign played_design(const Options& options);

/// `analyze --design`, `show --design`, `compare --designs`: the exit status.
[[nodiscard]] int analyze_design(const Options& options);
[[nodiscard]] int show_design(const Options& options);
[[nodiscard]] int compare_designs(const Options& options,
                                  std::vector<schedules::Selection> schedules);

/// `run --design` where lanes wait for nobody: the exit status. Nothing where the design is a
/// table, which is run as any other.
[[nodiscard]] std::optional<int> run_design(const Options& options);

/// The table of `--design`, as it is run. Throws Error{usage} if it has none of the problem.
[[nodiscard]] workbench::Source design_source(const Options& options);

/// The exit status of what was played.
[[nodiscard]] int exit_code(const designs::Analysis& analysis);

}  // namespace stagger::cli
