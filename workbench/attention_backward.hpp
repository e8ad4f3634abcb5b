#pragma once

#include "core/machine.hpp"
#include "workbench/block/transformer.hpp"
#include "workbench/time_model.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

namespace stagger::workbench {

/// What plays a schedule in a block's attention backward pass.
struct AttentionBackwardRequest {
  std::string schedule;           ///< with its parameters
  Machine machine = {};           ///< whose entries of the kernel say the phases
  std::string kernel = "hopper";  ///< in bf16
  std::optional<std::int64_t> tile_q = std::nullopt;  ///< absent: the profile's fastest
  std::optional<std::int64_t> tile_kv = std::nullopt;
  /// What plays the problem instead of the schedule: its name, and ns of a whole run.
  std::function<std::pair<std::string, Ticks>(const Problem&, const TimeModel&)> play = {};
};

/// A whole run of the kernel, passes and start among it, as it is predicted.
struct AttentionBackward {
  std::string schedule;
  KernelKey kernel;
  Ticks ns = 0;
};

/// Returns what the backward pass of a model's attention takes by a schedule: every head of every
/// sequence is one of its own, grouped heads too. Of several tile shapes the fastest is taken.
/// Throws Error{usage} if the profile has no entry of the kernel at this head_dim or the schedule
/// hangs, Error{unsupported} if the schedule applies to no tile shape.
[[nodiscard]] AttentionBackward attention_backward(const block::Transformer& model,
                                                   const AttentionBackwardRequest& request);

}  // namespace stagger::workbench
