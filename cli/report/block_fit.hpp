#pragma once

#include "cli/terminal.hpp"
#include "core/json.hpp"
#include "core/machine.hpp"
#include "workbench/block/block_fit.hpp"

#include <string>
#include <vector>

namespace stagger::cli {

/// Rates that were fitted to measured blocks, and what they say of each.
struct BlockFitReport {
  Machine machine = {};  ///< with the rates
  BlockRates rates = {};
  block::MeasuredBlocks measured = {};
  std::vector<block::FittedBlock> fitted = {};  ///< by measured.blocks

  /// Of what was predicted, by fitted rates or by those without the block's model: how many, the
  /// median and the worst error.
  [[nodiscard]] FitErrors errors(std::optional<double> block::FittedBlock::*which) const;
};

/// Schema `stagger.block-fit/1`: the profile without its kernels, and each block.
[[nodiscard]] std::string block_fit_json(const BlockFitReport& report);
[[nodiscard]] std::string block_fit_text(const BlockFitReport& report, const Terminal& terminal);

}  // namespace stagger::cli
