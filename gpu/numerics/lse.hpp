#pragma once

#include "gpu/numerics/host_device.hpp"

#include <cmath>

namespace stagger::gpu {

/// Returns log2(e) times a query's lse, for a kernel whose P is exp2(log2(e) score - it).
///
/// A query that sees nothing gets +infinity, with which every P is 0 whatever the score. That is
/// this project's convention; others write -infinity there, with which P would be infinite or, of a
/// score that is hidden as -infinity, no number.
[[nodiscard]] STAGGER_HOST_DEVICE inline float base_2_lse(float lse) {
  constexpr float kLog2e = 1.44269504F;
  return lse == -INFINITY ? INFINITY : lse * kLog2e;
}

}  // namespace stagger::gpu
