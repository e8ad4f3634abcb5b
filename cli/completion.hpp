#pragma once

#include "cli/options.hpp"

#include <string>

namespace stagger::cli {

/// The script that completes commands, options and values.
[[nodiscard]] std::string completion_script(Shell shell);

}  // namespace stagger::cli
