#pragma once

#include "core/machine.hpp"
#include "core/problem.hpp"
#include "core/table.hpp"
#include "core/timing.hpp"
#include "workbench/execution.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stagger::workbench {

/// Writes schema `stagger.run/1`.
[[nodiscard]] std::string write_run(const Execution& execution);

/// What a prediction needs of a run.
struct MeasuredRun {
  std::string source;  ///< the file, and which of its runs
  Problem problem = {};
  std::string schedule = {};  ///< as schedules::select() takes it
  bool from_file = false;     ///< the table was a file's: it cannot be built again, but given
  std::optional<Table> table = std::nullopt;  ///< as give_tables() gave it
  std::string orders = {};  ///< order_digest() of the table that ran, in hexadecimal; empty: unsaid
  KernelKey kernel = {};    ///< without a dtype if its phases only spin
  Timing timing = {};       ///< the model that it was run with; its schedule may depend on it
  Timing spun = {};         ///< of phases that spin: for how long, in ticks
  std::int64_t tick_ns = 1;  ///< and what such a tick lasts
  Ticks measured = 0;        ///< ns, from the first task's start to the last reduction's end
  std::optional<Ticks> predicted = std::nullopt;  ///< ns: what the run itself says
  /// ns, of the whole run, when no times of tasks are taken; absent: that was not measured.
  std::optional<Ticks> elapsed = std::nullopt;
  std::optional<Ticks> predicted_elapsed = std::nullopt;  ///< ns: what the run itself says

  /// Whether its phases only spun.
  [[nodiscard]] bool spins() const { return kernel.dtype.empty(); }
};

/// Runs, and those that nothing is predicted of.
struct MeasuredRuns {
  std::vector<MeasuredRun> runs;
  std::vector<std::string> skipped;  ///< `run.json: mode atomic`
};

/// Reads the `stagger.run/1` documents of a text, one or several one after the other. Throws
/// Error{invalid_input} with the path of what is wrong, unknown keys and words included.
[[nodiscard]] MeasuredRuns read_runs(std::string_view text, const std::string& source);

}  // namespace stagger::workbench
