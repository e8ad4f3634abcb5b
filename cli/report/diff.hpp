#pragma once

#include "cli/terminal.hpp"
#include "core/json.hpp"
#include "workbench/tickets/difference.hpp"
#include "workbench/tickets/lint.hpp"
#include "workbench/time_model.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace stagger::cli {

/// One of the two files that are compared.
struct DiffSide {
  std::string file = {};
  tickets::Document document = {};
  tickets::LintVerdict verdict = tickets::LintVerdict::ok;
  tickets::SumOrder sums = tickets::SumOrder::fixed;
  std::optional<workbench::TimeModel> model = {};  ///< of a table
  std::optional<Ticks> makespan = {};              ///< of a table that is ok
};

/// Two files, and what they do not have in common.
struct DiffReport {
  DiffSide before = {};
  DiffSide after = {};
  tickets::Difference difference = {};
  std::int64_t limit = 10;  ///< steps of a kind that are listed
};

/// Whether programs, launch, steps and, of tables, problems are the same; names may differ.
[[nodiscard]] bool same(const DiffReport& report);

[[nodiscard]] std::string diff_text(const DiffReport& report, const Terminal& terminal);

/// Schema `stagger.diff/1`.
[[nodiscard]] Json diff_json(const DiffReport& report);

}  // namespace stagger::cli
