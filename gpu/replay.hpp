#pragma once

#include "core/table.hpp"
#include "core/timing.hpp"
#include "gpu/backward.hpp"

#include <cstdint>

namespace stagger::gpu {

/// How long a replayed table's phases take.
struct ReplayTimes {
  Timing timing;                ///< the chain model's; its latency is the device's own
  std::int64_t tick_ns = 1000;  ///< what a tick lasts
};

/// Runs a table's lock protocol on the GPU with phases that only spin: the same waits, releases and
/// launches as backward_on_cuda, and no gradients. Requires what backward_on_cuda requires of a
/// table and a device, and the chain model. Throws Error{device}.
[[nodiscard]] Backward replay_on_cuda(const Table& table, const ReplayTimes& times,
                                      const BackwardOptions& options);

}  // namespace stagger::gpu
