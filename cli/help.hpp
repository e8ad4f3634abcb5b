#pragma once

#include "cli/commands.hpp"
#include "cli/option_rows.hpp"

#include <span>
#include <string>

namespace stagger::cli {

/// What the whole command is for.
inline constexpr const char* kDescription =
    "Schedules for a deterministic attention backward pass: stagger builds the compute/reduce "
    "graph of a mask and a schedule, proves or refutes its properties, simulates and draws it, "
    "and runs it.";

/// What bare `stagger` says: what it is, and where to begin.
[[nodiscard]] std::string overview_text(int width);

/// What `stagger --help` says: every command.
[[nodiscard]] std::string help_text(int width);

/// What `stagger COMMAND --help` says: every option, with its values and default, and examples.
[[nodiscard]] std::string help_text(const Command& command, int width);

/// `stagger verify [OPTION]... FILE`.
[[nodiscard]] std::string usage_of(const Command& command);

/// What an option means, the words that it takes and its default, in one sentence or two.
[[nodiscard]] std::string description_of(const OptionRow& row);

/// What each exit status means, as pairs.
struct ExitMeaning {
  int status;
  const char* meaning;
};
[[nodiscard]] std::span<const ExitMeaning> exit_meanings();

}  // namespace stagger::cli
