#pragma once

#include "cli/options.hpp"

namespace stagger::cli {

/// `calibrate --measured FILE`: the exit code.
[[nodiscard]] int calibrate_measured(const Options& options);

}  // namespace stagger::cli
