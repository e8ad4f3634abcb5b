#pragma once

#include "core/table.hpp"
#include "gpu/check/backward.hpp"
#include "gpu/check/replay_times.hpp"

namespace stagger::gpu {

/// Runs a table's lock protocol on the GPU with phases that only spin: the same waits, releases and
/// launches as backward_on_cuda, and no gradients. Requires what backward_on_cuda requires of a
/// table and a device, and the chain model. Throws Error{device}.
[[nodiscard]] Backward replay_on_cuda(const Table& table, const ReplayTimes& times,
                                      const BackwardOptions& options);

}  // namespace stagger::gpu
