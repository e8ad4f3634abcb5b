#pragma once

#include <string>

namespace stagger::cli {

/// The script that completes commands, options and values in bash, zsh or fish.
[[nodiscard]] std::string completion_script(const std::string& shell);

}  // namespace stagger::cli
