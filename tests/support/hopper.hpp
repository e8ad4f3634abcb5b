#pragma once

#include "gpu/check/checked_runs.hpp"
#include "gpu/hopper/hopper.hpp"
#include "gpu/hopper/shape.hpp"
#include "tests/support/catch.hpp"

#include <chrono>
#include <iostream>
#include <string>

namespace stagger::gpu {

inline constexpr std::chrono::milliseconds kHopperPatience{10'000};
inline constexpr std::chrono::milliseconds kHopperImpatience{20};
inline constexpr Dtype kHopperDtypes[] = {Dtype::bf16, Dtype::fp16};

/// A problem's inputs, the same ones every time.
[[nodiscard]] inline Attention hopper_attention(const Problem& problem, std::int64_t head_dim) {
  const AttentionShape shape = attention_shape(problem, head_dim);
  return make_attention(problem, shape, random_inputs(shape, 11));
}

/// A problem of a shape's tiles.
[[nodiscard]] inline Problem hopper_problem(const char* mask, Lengths lengths,
                                            const hopper::Shape& shape, std::int32_t heads,
                                            const Grouping& grouping = {}) {
  return make_problem(parse_mask(mask), lengths, {.q = shape.tile_q, .kv = hopper::kTileKv}, heads,
                      0, grouping);
}

/// What hopper_attention() makes, with dropout.
[[nodiscard]] inline Attention hopper_dropped(const Problem& problem, std::int64_t head_dim,
                                              const DropoutOptions& options) {
  const AttentionShape shape = attention_shape(problem, head_dim);
  return make_attention(problem, shape, random_inputs(shape, 11),
                        make_dropout(options, shape.dropout_layout()));
}

/// Whether the device of these tests has the kernel; says that the case is skipped if not, as CTest
/// looks for.
[[nodiscard]] inline bool has_hopper() {
  const Problem problem = hopper_problem("full", {128, 128}, hopper::kShapes[0], 1);
  const std::string refusal = hopper_refusal(problem, attention_shape(problem, 64), Dtype::bf16);
  if (!refusal.empty()) std::cout << "SKIPPED: " << refusal << '\n';
  return refusal.empty();
}

/// Runs a table so many times on the device, and fails unless all its promises are kept.
inline void check_on_hopper(const Table& table, const Attention& attention,
                            const ReferenceGradients& exact, const BackwardOptions& options,
                            std::int64_t repeats) {
  const CheckedRuns runs =
      check_runs(table, attention, &exact, options, repeats, backward_on_hopper);
  for (const RunFault& fault : runs.faults)
    UNSCOPED_INFO(fault.message);
  REQUIRE(runs.verdict == RunVerdict::ok);
  REQUIRE(runs.repeats == repeats);
}

}  // namespace stagger::gpu
