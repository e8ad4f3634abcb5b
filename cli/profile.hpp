#pragma once

#include "core/machine.hpp"

#include <string>

namespace stagger::cli {

/// The profile in a file that gets what a device was measured to do or, if there is no such file, a
/// new one named like it: `device` says its device, driver and SMs. Throws Error{usage} if the
/// file's is another device's, and what reading it throws.
[[nodiscard]] Machine profile_for(const std::string& path, const Machine& device);

}  // namespace stagger::cli
