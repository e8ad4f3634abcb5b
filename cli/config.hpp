#pragma once

#include "cli/commands.hpp"
#include "cli/option_rows.hpp"

#include <string>
#include <vector>

namespace stagger::cli {

/// An option and the values that were given for it; a flag's are empty words.
struct Given {
  const OptionRow* row = nullptr;
  std::vector<std::string> words;
};

/// Reads a `stagger.config/1` file: what it gives of the options of `command`. Keys are long option
/// names; those that only other commands have are left out, and a `command` key must name this one.
/// Every value is one that its option takes. Throws Error{invalid_input} naming the key, Error{io}.
[[nodiscard]] std::vector<Given> config_values(const std::string& path, const Command& command);

}  // namespace stagger::cli
