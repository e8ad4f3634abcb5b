#pragma once

#include "core/timing.hpp"

#include <cstdint>

namespace stagger::gpu {

/// How long a replayed table's phases take.
struct ReplayTimes {
  Timing timing;                ///< the chain model's; its latency is the device's own
  std::int64_t tick_ns = 1000;  ///< what a tick lasts
};

}  // namespace stagger::gpu
