#pragma once

#include "workbench/designs/analysis.hpp"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace stagger::designs {

/// Designs of one problem beside each other.
struct ComparisonRequest {
  Request request;                                   ///< its schedule and parameters do not count
  std::vector<schedules::Selection> schedules = {};  ///< of the ordered design, a row each
  workbench::AnalysisOptions analysis = {};
  std::function<void(double fraction)> progress = {};
  std::function<bool()> stop = {};  ///< asked before each row
};

/// One design, or one that does not apply.
struct ComparisonRow {
  const Design* design = nullptr;
  std::string name = {};                            ///< of an ordered one its schedule
  std::string unsupported = {};                     ///< why it does not apply; empty if it does
  std::optional<Analysis> analysis = std::nullopt;  ///< without the tables; absent if it does not

  [[nodiscard]] bool ok() const { return analysis && analysis->ok(); }
  /// Whether its bits depend on one of these words; those of a design that does not apply do not.
  [[nodiscard]] bool moves_with(const std::vector<std::string>& words) const;
};

struct Comparison {
  Problem problem = {};
  workbench::TimeModel model = {};
  std::int64_t head_dim = 64;
  std::int64_t element_bytes = 4;
  Ticks without_order = 0;  ///< of the kernel that is not deterministic
  /// Rows that are ok by what they take, then those that are not, then those that do not apply.
  std::vector<ComparisonRow> rows = {};
  std::int64_t missing = 0;  ///< rows that `stop` left out

  /// Whether a row takes as long as it says: a design bound by a memory of unknown rate may not.
  [[nodiscard]] bool knows_time(const ComparisonRow& row) const {
    return row.ok() && (model.timing.memory || !row.design->by_memory);
  }
  /// The first of the rows that is ok and whose time is known; nullptr: none is.
  [[nodiscard]] const ComparisonRow* best() const;
  /// The first, if any, that is ok, whose bits depend on none of these words, and whose time is
  /// known.
  [[nodiscard]] const ComparisonRow* best_without(const std::vector<std::string>& words) const;
};

/// Every design that is compared, with its parameters, but for the ordered one.
[[nodiscard]] std::vector<Selection> compared();

/// Plays every design, the ordered one by each schedule. Throws Error{limit}.
[[nodiscard]] Comparison compare(ComparisonRequest request);

}  // namespace stagger::designs
