#pragma once

#include "workbench/block/measured_block.hpp"

#include <optional>
#include <span>
#include <vector>

namespace stagger::block {

/// Returns the rates that measured blocks say, by relative least squares over all kernels within
/// eager blocks: GEMMs an offset, a rate and a part of their bytes, under the throttle that suits
/// them best, none of them negative; single operations a rate for each access that is not that of
/// copies. Kappa is the median over blocks of one kind of layers, attention's rate the median over
/// blocks of one shape, at the full clock. Throws Error{invalid_input} if no kernels within blocks
/// are known, or if they say that more work takes less time.
[[nodiscard]] BlockRates fitted_rates(const MeasuredBlocks& measured);

/// What rates say of a measured block, and what those fitted without its model do.
struct FittedBlock {
  std::optional<double> fitted_ms = std::nullopt;    ///< absent: no attention of that name
  std::optional<double> held_out_ms = std::nullopt;  ///< absent: no other model tells
  bool attention_measured = false;  ///< held out, with attention's times as they were within it

  [[nodiscard]] static double error(double ms, const MeasuredBlock& block) {
    return ms / block.total_ms - 1;
  }
};

/// Returns one for each measured block, in their order.
[[nodiscard]] std::vector<FittedBlock> judge_fit(const MeasuredBlocks& measured,
                                                 const BlockRates& rates);

}  // namespace stagger::block
