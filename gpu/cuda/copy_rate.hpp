#pragma once

#include <cstdint>

namespace stagger::gpu {

/// What device memory moves for a copy of half a GB, bytes read and bytes written, in bytes a ns,
/// > 0: the median of the last ten of fifty, as the first ones bring the clock up. Takes some 20 ms
/// and 1 GB of device memory. Requires a device. Throws Error{device}.
[[nodiscard]] std::int64_t copy_bytes_per_ns_on_cuda();

}  // namespace stagger::gpu
