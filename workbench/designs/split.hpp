#pragma once

#include "workbench/designs/design.hpp"

#include <cstdint>

namespace stagger::designs {

/// How many dQ buffers FlashAttention-2 takes: ceil(SMs / heads), batch among the heads.
[[nodiscard]] std::int64_t flash_buffers(const Problem& problem);

/// The number of buffers with which the workers take the shortest, with clearing and adding the
/// buffers where ns and a rate of device memory are known; of those the smallest. Beyond 32 workers
/// an SM no more are tried.
[[nodiscard]] std::int64_t best_buffers(const Request& request);

/// The workers of a split: for each head and buffer x a lane of the KV tiles x, x + G, ...
[[nodiscard]] FreeLanes split_lanes(const Problem& problem, std::int64_t buffers);

}  // namespace stagger::designs
