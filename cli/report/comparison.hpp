#pragma once

#include "cli/expect.hpp"
#include "cli/terminal.hpp"
#include "workbench/comparison.hpp"

#include <span>
#include <string>

namespace stagger::cli {

/// Schema `stagger.compare/1`; what was expected is listed if something was.
[[nodiscard]] std::string comparison_json(const workbench::Comparison& comparison,
                                          std::span<const Judgement> judgements = {});

/// A line of names, and one for each row: makespans in ticks or ns, ratios as decimals.
[[nodiscard]] std::string comparison_csv(const workbench::Comparison& comparison);

/// The table, as wide as the terminal at most, a legend, and the Gantt chart of the best.
[[nodiscard]] std::string comparison_text(const workbench::Comparison& comparison,
                                          const Terminal& terminal);

/// The table of a comparison and its legend in Markdown.
[[nodiscard]] std::string comparison_markdown(const workbench::Comparison& comparison);

}  // namespace stagger::cli
