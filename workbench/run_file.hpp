#pragma once

#include "core/machine.hpp"
#include "core/problem.hpp"
#include "core/timing.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stagger::workbench {

/// What a prediction needs of a run, as `stagger run --json` writes it.
struct MeasuredRun {
  std::string source;  ///< the file, and which of its runs
  Problem problem = {};
  std::string schedule = {};  ///< as `--schedule` takes it
  bool from_file = false;     ///< the table was a file's: it cannot be built again
  KernelKey kernel = {};
  Timing timing = {};        ///< the model that it was run with; its schedule may depend on it
  Timing spun = {};          ///< what a replay's phases spin, in ticks
  std::int64_t tick_ns = 0;  ///< of a replay, else 0
  Ticks measured = 0;        ///< ns, from the first task's start to the last reduction's end
  std::optional<Ticks> predicted = std::nullopt;  ///< ns: what the run itself says
  /// ns, of the whole run, when no times of tasks are taken; absent: that was not measured.
  std::optional<Ticks> elapsed = std::nullopt;
  std::optional<Ticks> predicted_elapsed = std::nullopt;  ///< ns: what the run itself says
};

/// Runs, and those that nothing is predicted of.
struct MeasuredRuns {
  std::vector<MeasuredRun> runs;
  std::vector<std::string> skipped;  ///< `run.json: mode atomic`
};

/// Reads the `stagger.run/1` documents of a text, one or several one after the other. Keys beyond
/// those needed are not looked at: runs are written by this program, of whatever version. Throws
/// Error{invalid_input}.
[[nodiscard]] MeasuredRuns read_runs(std::string_view text, const std::string& source);

}  // namespace stagger::workbench
