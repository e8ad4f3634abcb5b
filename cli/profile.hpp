#pragma once

#include "core/machine.hpp"

#include <string>

namespace stagger::cli {

/// Whether two profiles are of one device, driver and number of SMs.
[[nodiscard]] bool is_same_device(const Machine& one, const Machine& other);

/// `NVIDIA H200 (132 SMs, CUDA 13.0)`; a profile that nobody measured has no driver.
[[nodiscard]] std::string device_text(const Machine& machine);

/// The profile in a file that gets what a device was measured to do or, if there is no such file, a
/// new one named like it: `device` says its device, driver and SMs. Throws Error{usage} if the
/// file's is another device's, and what reading it throws.
[[nodiscard]] Machine profile_for(const std::string& path, const Machine& device);

}  // namespace stagger::cli
