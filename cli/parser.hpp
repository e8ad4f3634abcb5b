#pragma once

#include "cli/commands.hpp"
#include "cli/options.hpp"

#include <string>
#include <vector>

namespace stagger::cli {

/// A command line as it was read.
struct CommandLine {
  const Command* command = nullptr;
  Options options;
};

/// Reads the words after the program's name, and the config that they name: its options first, so
/// that the command line wins. If help was asked for, nothing else is looked at. Throws
/// Error{usage} if a command, an option or a value is unknown, one is missing, given twice or
/// contradicts another, and what config_values() throws.
[[nodiscard]] CommandLine parse(const std::vector<std::string>& words);

}  // namespace stagger::cli
