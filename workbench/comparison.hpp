#pragma once

#include "workbench/analysis.hpp"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace stagger::workbench {

/// What several tables of one problem are compared by.
struct ComparisonRequest {
  Problem problem;
  TimeModel model = {};
  std::vector<schedules::Selection> schedules = every_schedule();
  std::vector<Table> tables = {};  ///< of the same problem, beside the schedules'
  std::string baseline = {};       ///< the row that others are held against; empty: none
  bool kv_index_ranks = false;     ///< the schedules' tables get absolute lock values
  bool invariant = false;  ///< the schedules' tables are batch invariant, on fewer SMs maybe
  AnalysisOptions analysis = {};
  std::function<void(double fraction)> progress = {};
  std::function<bool()> stop = {};  ///< asked before each row, and while one is searched

  /// All of them, their parameters at their defaults.
  [[nodiscard]] static std::vector<schedules::Selection> every_schedule();
};

/// One table, or a schedule that has none for the problem.
struct ComparisonRow {
  std::string name;
  std::string unsupported;         ///< why the schedule does not apply; empty if it does
  std::optional<Summary> summary;  ///< absent if it does not

  [[nodiscard]] bool ok() const { return summary && summary->ok(); }
};

struct Comparison {
  Problem problem;
  TimeModel model;
  /// Rows by makespan, then tables that are not ok, then schedules that do not apply; each in the
  /// order of the request, schedules first.
  std::vector<ComparisonRow> rows;
  std::optional<Analysis> best;  ///< of the first row; absent: none is ok
  std::string baseline;          ///< a row's name; empty: none
  std::int64_t missing = 0;      ///< rows that `stop` left out

  /// Names of the rows whose makespan is the best, without the best's own.
  [[nodiscard]] std::vector<std::string> ties() const;
  /// The first row of that name, nullptr if there is none.
  [[nodiscard]] const ComparisonRow* find(const std::string& name) const;
  /// How many times a row is faster than the baseline; absent where one of them is not ok.
  [[nodiscard]] std::optional<double> speedup(const ComparisonRow& row) const;
};

/// Analyses the table of every schedule asked for, and those given. Bounds are those of all SMs,
/// and what another one beats is not optimal. Throws Error.
[[nodiscard]] Comparison compare(ComparisonRequest request);

}  // namespace stagger::workbench
