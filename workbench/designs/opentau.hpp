#pragma once

#include <cstdint>

namespace stagger::designs {

// What OpenTau's kernels need of shared memory, in bytes, with `warps` tiles of 16 tokens a CTA.
// Source: flash_blockmask.cu:1258, 1291.
[[nodiscard]] std::int64_t opentau_dkv_shared_bytes(std::int64_t head_dim, std::int64_t warps);
[[nodiscard]] std::int64_t opentau_dq_shared_bytes(std::int64_t head_dim, std::int64_t warps);

}  // namespace stagger::designs
