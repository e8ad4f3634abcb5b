#pragma once

#include "core/timing.hpp"
#include "gpu/check/checked_runs.hpp"

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace stagger::cli {

struct Options;

/// A CUDA kernel that plays tables.
struct Kernel {
  const char* name;
  const char* summary;
  Model model;           ///< that its phases are fitted in
  gpu::Device run;       ///< nullptr: phases only spin (gpu/cuda/replay.hpp)
  gpu::BareDevice bare;  ///< nullptr: `run` without stamps is all there is
  bool passes;           ///< whether it has passes over whole tensors before and after
  [[nodiscard]] bool spins() const { return run == nullptr; }
};

/// In the order in which messages list them.
[[nodiscard]] std::span<const Kernel> kernels();

/// Throws Error{usage}, naming those there are.
[[nodiscard]] const Kernel& kernel_of(std::string_view name);

/// `--dtype`. Throws Error{usage}, naming those there are.
[[nodiscard]] gpu::Dtype dtype_of(const Options& options);

}  // namespace stagger::cli
