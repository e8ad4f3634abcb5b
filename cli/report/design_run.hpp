#pragma once

#include "cli/terminal.hpp"
#include "workbench/designs/execution.hpp"

#include <string>

namespace stagger::cli {

/// Schema `stagger.run/1`, with a `design` instead of a `schedule`.
[[nodiscard]] std::string design_run_json(const designs::Execution& execution);

/// A design's run for people.
[[nodiscard]] std::string design_run_text(const designs::Execution& execution,
                                          const Terminal& terminal);

}  // namespace stagger::cli
