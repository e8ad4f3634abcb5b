#pragma once

#include "gpu/check/cross_check.hpp"
#include "gpu/cpu/executor.hpp"
#include "tests/support/catch.hpp"

#include <utility>

namespace stagger::gpu {

inline constexpr std::chrono::milliseconds kPatience{60'000};

inline Attention attention_of(const Problem& problem, std::int64_t head_dim = 4) {
  const AttentionShape shape = attention_shape(problem, head_dim);
  return make_attention(problem, shape, random_inputs(shape, 11));
}

/// KV tile i on lane i, Q ascending, ranks by KV tile.
inline Table square(std::int32_t tiles, TileShape shape = {}) {
  const Lengths lengths{.q = tiles * shape.q, .kv = tiles * shape.kv};
  Table table;
  table.name = "square";
  table.problem = make_problem(make_mask("full"), lengths, shape, 1, tiles);
  for (KvTile kv{0}; kv.value < tiles; ++kv) {
    for (QTile q{0}; q.value < tiles; ++q)
      table.slots.push_back({{Head{0}, kv, q}, kv.value});
    table.end_lane();
  }
  return table;
}

inline void check_gradients(const Gradients& got, const ReferenceGradients& want, double bound) {
  for (const auto& [gradient, exact] :
       {std::pair{&got.dq, &want.dq}, std::pair{&got.dk, &want.dk}, std::pair{&got.dv, &want.dv}}) {
    const Deviation error = deviation(*gradient, *exact);
    REQUIRE(error.frobenius <= bound);
    REQUIRE(error.most <= bound);
  }
}

}  // namespace stagger::gpu
