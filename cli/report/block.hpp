#pragma once

#include "cli/expect.hpp"
#include "cli/terminal.hpp"
#include "core/json.hpp"
#include "workbench/attention_backward.hpp"
#include "workbench/block/cost.hpp"
#include "workbench/block/replacement.hpp"

#include <optional>
#include <span>
#include <string>

namespace stagger::cli {

/// A block, and what replaces its attention backward pass if something does.
struct BlockReport {
  block::Transformer model;
  Machine machine;
  std::optional<Load> load = std::nullopt;  ///< that was asked for
  std::int64_t tp = 1;
  block::BlockCost cost = {};
  std::optional<block::Replacement> replacement = std::nullopt;
  std::optional<block::Settled> settled = std::nullopt;  ///< the same at its own clock
  std::optional<workbench::AttentionBackward> schedule = std::nullopt;  ///< what replaces it

  [[nodiscard]] const BlockRates& rates() const { return block_rates_of(machine, load); }
  /// 1 if nothing is replaced.
  [[nodiscard]] double kernel_speedup() const {
    return replacement ? replacement->kernel_speedup : 1;
  }
  [[nodiscard]] double block_speedup() const {
    return replacement ? replacement->block_speedup : 1;
  }
  [[nodiscard]] double settled_speedup() const { return settled ? settled->block_speedup : 1; }
};

/// `llama3-8b, 1 x 16384 tokens on h200, burst load`.
[[nodiscard]] std::string block_title(const BlockReport& report);

/// Schema `stagger.block/1`.
[[nodiscard]] Json block_json(const BlockReport& report, std::span<const Judgement> judgements);
[[nodiscard]] std::string block_text(const BlockReport& report, const Terminal& terminal);

}  // namespace stagger::cli
