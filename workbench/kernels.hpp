#pragma once

#include "core/machine.hpp"
#include "core/timing.hpp"
#include "gpu/check/checked_runs.hpp"

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace stagger::workbench {

/// A kernel that plays tables: a row of the table in kernels.cpp.
struct Kernel {
  const char* name;
  const char* summary;
  Model model;                 ///< that its phases are fitted in
  gpu::Device on_cpu;          ///< nullptr: it has no counterpart on threads
  gpu::Device on_cuda;         ///< nullptr: its phases only spin (gpu/cuda/replay.hpp)
  gpu::UntimedDevice untimed;  ///< nullptr: there is no run but `on_cuda`, with stamps
  bool passes;                 ///< whether it has passes over whole tensors before and after
  bool cut_partial;            ///< Timing::cut_partial
  /// Steps of a task (core/as_played.hpp), by head_dim and tiles; nullptr: one.
  std::int32_t (*steps)(std::int64_t head_dim, const TileShape& tile);
  [[nodiscard]] bool spins() const { return on_cuda == nullptr; }
};

/// In the order in which messages list them.
[[nodiscard]] std::span<const Kernel> kernels();

/// Throws Error{usage}, naming those there are.
[[nodiscard]] const Kernel& kernel_of(std::string_view name);

/// What a machine profile finds a kernel's entry by, without tiles: of one that only spins the name
/// alone. The name need not be one of kernels().
[[nodiscard]] KernelKey kernel_key(std::string_view kernel, std::string_view dtype,
                                   std::int64_t head_dim);

}  // namespace stagger::workbench
