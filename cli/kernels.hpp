#pragma once

#include "core/timing.hpp"
#include "gpu/checked_runs.hpp"

#include <span>
#include <string_view>

namespace stagger::cli {

/// A kernel that can be calibrated.
struct Kernel {
  const char* name;
  Model model;      ///< that its phases are fitted in
  gpu::Device run;  ///< nullptr: phases only spin (gpu/replay.hpp)
  [[nodiscard]] bool spins() const { return run == nullptr; }
};

/// In the order in which messages list them.
[[nodiscard]] std::span<const Kernel> kernels();

/// Throws Error{usage}, naming those there are.
[[nodiscard]] const Kernel& kernel_of(std::string_view name);

}  // namespace stagger::cli
