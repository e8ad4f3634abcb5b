#pragma once

#include <cstdint>

namespace stagger::gpu {

/// What a load takes on an idle device where each needs the one before, in ns, > 0.
struct LoadLatency {
  std::int64_t l2 = 0;      ///< of what is in the L2 cache
  std::int64_t memory = 0;  ///< of what is in device memory alone
};

/// Chases a chain through 16 MiB, out of device memory and then out of L2: medians of five. Takes
/// half a second and eight times the L2 cache of device memory. Requires a device. Throws
/// Error{device}.
[[nodiscard]] LoadLatency load_latency_on_cuda();

}  // namespace stagger::gpu
