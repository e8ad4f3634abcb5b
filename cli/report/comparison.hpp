#pragma once

#include "cli/terminal.hpp"
#include "workbench/comparison.hpp"

#include <string>

namespace stagger::cli {

/// Schema `stagger.compare/1`.
[[nodiscard]] std::string comparison_json(const workbench::Comparison& comparison);

/// A row for each table and schedule, a legend, and the Gantt chart of the best.
[[nodiscard]] std::string comparison_text(const workbench::Comparison& comparison,
                                          const Terminal& terminal);

}  // namespace stagger::cli
