#pragma once

#include "gpu/check/attention.hpp"

#include <vector>

namespace stagger::gpu {

/// A gradient in double precision.
struct Exact {
  std::vector<double> values;
  /// Root of the sum, over all elements, of their squared terms with dS taken as P sqrt(dP^2 +
  /// D^2): how large the gradient would be if nothing cancelled. Rounding errors scale with this.
  double terms = 0;
};

struct ReferenceGradients {
  Exact dq;
  Exact dk;
  Exact dv;
};

/// Computes the gradients as calculus gives them, pair of tokens by pair, without tiles:
///
///     P = exp(scale q k - lse)    dP = dO v    dS = P (dP - D)
///     dV += P dO    dQ += scale dS k    dK += scale dS q
///
/// With dropout dP and the P of dV are multiplied by pair_weight(), and D is of the O that was
/// made of what was kept.
///
/// O(heads x queries x keys x head_dim). Source: FlashAttention-2, section 2.3.
[[nodiscard]] ReferenceGradients reference_gradients(const Attention& attention);

}  // namespace stagger::gpu
