#pragma once

#include "workbench/block/cost.hpp"

namespace stagger::block {

/// What another attention backward takes.
struct NewAttention {
  double ms = 0;        ///< > 0
  bool rested = false;  ///< alone, not within a block: longer there by its clock
};

/// Returns what it takes within a block, at its clock.
[[nodiscard]] double within_ms(const NewAttention& attention, const CostRequest& request,
                               const BlockCost& cost);

/// A block whose attention backward is replaced by another: T' = T − T_ab + T'_ab.
struct Replacement {
  double attention_backward_ms = 0;
  double total_ms = 0;
  double kernel_speedup = 1;  ///< s: before by after
  double block_speedup = 1;   ///< 1 / (1 − f (1 − 1 / s))
};

/// Returns the block with an attention backward of `attention_backward_ms`, > 0. Requires a total
/// longer than its attention backward, > 0.
[[nodiscard]] Replacement replace(double total_ms, double attention_backward_ms,
                                  double replaced_ms);

/// A replaced block at its own clock, which is lower the more it does a second.
struct Settled {
  double clock = 1;   ///< a part of the full one
  double tflops = 0;  ///< of tensor cores, over the kernels
  double total_ms = 0;
  double block_speedup = 1;
};

/// Returns `before`, which is `cost_of(model, request)`, with what replaces its attention backward
/// pass, at the clock that this block has.
[[nodiscard]] Settled settle(const Transformer& model, const CostRequest& request,
                             const BlockCost& before, const NewAttention& after);

/// Returns what no attention backward can pass: 1 / (1 − f).
[[nodiscard]] double most_speedup(double fraction);

}  // namespace stagger::block
