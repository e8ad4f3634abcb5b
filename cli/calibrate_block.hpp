#pragma once

#include "cli/options.hpp"

namespace stagger::cli {

/// `calibrate --block FILE`: rates of blocks fitted to a document of measured ones, into a profile.
/// Returns the exit code. Throws Error.
[[nodiscard]] int calibrate_block(const Options& options);

}  // namespace stagger::cli
