#pragma once

#include "cli/terminal.hpp"
#include "workbench/execution.hpp"

#include <string>

namespace stagger::cli {

/// What a run showed; `stagger.run/1` is workbench/run_file.hpp's.
[[nodiscard]] std::string run_text(const workbench::Execution& execution, const Terminal& terminal);

}  // namespace stagger::cli
