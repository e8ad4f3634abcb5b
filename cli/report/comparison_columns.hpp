#pragma once

#include "core/time_unit.hpp"
#include "workbench/comparison.hpp"

#include <string>
#include <vector>

namespace stagger::cli {

/// What people see of the rows of a comparison: a cell for each that is ok.
struct ComparisonColumn {
  std::string header;
  bool left = false;               ///< where a cell stands in its column
  std::vector<std::string> cells;  ///< by row of the comparison that is ok
  std::string legend;              ///< what the header means, in lines; empty: what it says

  /// The widest of its cells and its header.
  [[nodiscard]] std::size_t width() const;
};

/// The columns, the most telling first; those that would say nothing are left out.
[[nodiscard]] std::vector<ComparisonColumn> columns_of(const workbench::Comparison& comparison);

/// Why a row is not ok, or does not apply.
[[nodiscard]] std::string reason_of(const workbench::ComparisonRow& row);

/// What most of the gap of a row that is ok is due to, on the SM that ends last; empty if it has
/// none.
[[nodiscard]] const char* cause_of_gap(const workbench::Summary& summary);

}  // namespace stagger::cli
