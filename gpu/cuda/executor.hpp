#pragma once

#include "core/table.hpp"
#include "gpu/check/attention.hpp"
#include "gpu/check/backward.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace stagger::gpu {

/// Whether this build has CUDA kernels.
[[nodiscard]] bool has_cuda();

struct CudaDevice {
  std::string name;
  std::int32_t sms = 0;  ///< CTAs that it holds at once: one an SM
  std::string driver;    ///< CUDA version of the driver
};
/// Describes the first CUDA device; absent if there is none, or the build has no CUDA.
[[nodiscard]] std::optional<CudaDevice> cuda_device();

/// Runs a table's backward pass on the GPU with the sums in the order of gpu/cpu/tile.hpp:
/// gradients have the bits of backward_on_cpu. One CTA an SM, `residency` of them; no wait is
/// longer than `options.timeout` (0: a minute), and the run then stops.
///
/// Requires what backward_on_cpu requires, and a device. Throws Error{device} if it holds fewer
/// CTAs than that or has too little memory, and Error{unsupported} if two fp32 tiles (tile_q x
/// tile_kv) do not fit into its shared memory: 128 x 208 tokens on an H200.
[[nodiscard]] Backward backward_on_cuda(const Table& table, const Attention& attention,
                                        const BackwardOptions& options);

}  // namespace stagger::gpu
