#pragma once

#include "core/table.hpp"
#include "gpu/check/attention.hpp"
#include "gpu/check/checked_runs.hpp"

#include <string>

namespace stagger::gpu {

/// Says why the hopper kernel does not run this problem; empty if it does. It runs bf16 and fp16,
/// head_dim 64 and 128, KV tiles of 128 tokens and Q tiles of 64, 80 or 128, on devices of compute
/// capability 9.0.
[[nodiscard]] std::string hopper_refusal(const Problem& problem, const AttentionShape& shape,
                                         Dtype dtype);

/// Runs a table's backward pass on a Hopper GPU as a fast kernel does: one CTA an SM, the compute
/// of a task beside the reduction of the one before (Model::overlap). Requires what
/// backward_on_cuda does and no hopper_refusal. `elapsed_ns` is of the whole pass: preprocess, main
/// and convert. Throws Error{device} as backward_on_cuda does.
[[nodiscard]] Backward backward_on_hopper(const Table& table, const Attention& attention,
                                          const BackwardOptions& options);

/// Runs a table's backward pass untimed, without stamps or witness: an UntimedDevice.
[[nodiscard]] UntimedRuns untimed_runs_on_hopper(const Table& table, const Attention& attention,
                                                 const BackwardOptions& options, int warmups,
                                                 int runs);

}  // namespace stagger::gpu
