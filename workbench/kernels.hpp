#pragma once

#include "core/machine.hpp"
#include "core/timing.hpp"
#include "gpu/check/checked_runs.hpp"

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace stagger::workbench {

/// A CUDA kernel that plays tables.
struct Kernel {
  const char* name;
  const char* summary;
  Model model;           ///< that its phases are fitted in
  gpu::Device run;       ///< nullptr: phases only spin (gpu/cuda/replay.hpp)
  gpu::BareDevice bare;  ///< nullptr: `run` without stamps is all there is
  bool passes;           ///< whether it has passes over whole tensors before and after
  bool on_cpu = false;   ///< whether threads play the same
  [[nodiscard]] bool spins() const { return run == nullptr; }
};

/// In the order in which messages list them.
[[nodiscard]] std::span<const Kernel> kernels();

/// What a machine profile finds a kernel's entry by, without tiles: of one that only spins the name
/// alone. The name need not be one of kernels().
[[nodiscard]] KernelKey kernel_key(std::string_view kernel, std::string_view dtype,
                                   std::int64_t head_dim);

}  // namespace stagger::workbench
