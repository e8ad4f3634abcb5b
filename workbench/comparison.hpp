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
  std::vector<Table> tables = {};  ///< of the same problem, beside the schedules'
  bool kv_index_ranks = false;     ///< the schedules' tables get absolute lock values
  AnalysisOptions analysis = {};
  std::function<void(double fraction)> progress = {};
};

/// One table, or a schedule that has none for the problem.
struct ComparisonRow {
  std::string name;
  std::string unsupported;         ///< why the schedule does not apply; empty if it does
  std::optional<Summary> summary;  ///< absent if it does not
};

struct Comparison {
  Problem problem;
  TimeModel model;
  std::vector<ComparisonRow> rows;  ///< schedules in the order of schedules::all(), then tables
  std::optional<Analysis> best;     ///< the first with the smallest makespan; absent: none is ok
};

/// Analyses the table of every schedule, and those given. What another one beats is not optimal.
/// Throws Error.
[[nodiscard]] Comparison compare(ComparisonRequest request);

}  // namespace stagger::workbench
