#pragma once

#include "core/table.hpp"
#include "workbench/optimization.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace stagger::workbench {

/// A table that is among the best by the model, and what it took on a device.
struct Finalist {
  std::string name;  ///< a schedule's, or the name of what the search found
  Table table;
  TimeModel model = {};            ///< its span's
  Ticks makespan = 0;              ///< by the model
  Ticks cost = 0;                  ///< that they are chosen by (schedules/search/rating.hpp)
  std::vector<std::int64_t> ns{};  ///< that its runs took, in their order
  std::string failed{};  ///< why a run was no good, or that there was none; empty: all were good

  /// What a whole pass costs.
  [[nodiscard]] Ticks whole() const { return cost + model.passes; }
  /// Requires a run.
  [[nodiscard]] std::int64_t median_ns() const;
};

/// Returns the tables of the shortest whole passes by the model, at most `count`, best first: what
/// the search found, those of schedules that do not search, with every parameter that is worth
/// trying, and with a memory `windowed`, of every span that was searched. Of tables that are the
/// same the first is there. Made `threads` at a time, 0: as many as the machine has. Once `stop()`
/// is true, asked before each table, it is those that were made by then. Requires a table that was
/// found, and no slot model.
[[nodiscard]] std::vector<Finalist> finalists_of(const Optimization& optimization,
                                                 std::size_t count, std::int64_t threads = 0,
                                                 const std::function<bool()>& stop = {});

/// What a run of a finalist's table took, in ns, > 0. Throws Error if it was no good.
using TimedRun = std::function<std::int64_t(const Finalist&)>;

/// Told before each run how many of all are done; no more are begun once it says so.
using GoesOn = std::function<bool(std::size_t done, std::size_t all)>;

/// Runs every finalist `rounds` times, in turns, as a device is not as fast at all times, and
/// orders them by their medians, those that failed or did not run last. One that failed runs no
/// more.
void measure(std::vector<Finalist>& finalists, int rounds, const TimedRun& run,
             const GoesOn& goes_on = {});

}  // namespace stagger::workbench
