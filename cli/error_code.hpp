#pragma once

#include "cli/commands.hpp"
#include "core/error.hpp"

namespace stagger::cli {

/// What the status says of an Error.
[[nodiscard]] ExitCode exit_code(ErrorKind kind);

}  // namespace stagger::cli
