#pragma once

#include "cli/expect.hpp"
#include "cli/options.hpp"
#include "workbench/analysis.hpp"

#include <span>
#include <string>
#include <vector>

namespace stagger::cli {

/// What the command's exit status says (README, "Exit codes").
enum ExitCode : int {
  kHolds = 0,
  kViolated = 1,  ///< a formula, the validity of a table, an --expect
  kUsage = 2,
  kBadFile = 3,   ///< a file is malformed, or cannot be read or written
  kDeadlock = 4,  ///< deadlock or infeasible
  kLimit = 5,     ///< a limit was reached without proof
  kInternal = 70,
  kSkipped = 77,
  kInterrupted = 130,
};

/// What the status says of a table, whichever command looked at it.
[[nodiscard]] ExitCode exit_code(dag::Verdict verdict);
[[nodiscard]] ExitCode exit_code(const workbench::Summary& summary);

/// One subcommand: a file each.
struct Command {
  const char* name;
  const char* summary;
  const char* examples;
  int (*run)(const Options&);
  std::vector<ExpectName> (*names)() = nullptr;  ///< that its --expect knows; nullptr: it has none
};

/// In the order `stagger --help` prints.
[[nodiscard]] std::span<const Command* const> commands();

}  // namespace stagger::cli
