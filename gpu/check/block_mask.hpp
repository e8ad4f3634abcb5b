#pragma once

#include "core/problem.hpp"
#include "core/token_mask.hpp"

#include <cstdint>
#include <vector>

namespace stagger::gpu {

/// Which pairs of tokens attend, in squares of kSide queries x kSide keys: for code that shares no
/// tiling with the kernels it judges, whatever a problem's tiles are.
struct BlockMask {
  static constexpr std::int64_t kSide = 64;
  static constexpr std::int32_t kEmpty = -1;
  static constexpr std::int32_t kFull = -2;

  std::int64_t q_blocks = 0;
  std::int64_t kv_blocks = 0;
  /// What a block is, by (Q block, KV block): kEmpty, kFull, or its number among the partial ones.
  /// A block that reaches beyond the last token is partial.
  std::vector<std::int32_t> kinds;
  /// The keys that a query of a partial block sees, by (partial block, query in it): bit k is key k
  /// of the block.
  std::vector<std::uint64_t> seen;
};

/// Cuts a mask into blocks. Throws Error{limit} above kMaxGridTiles blocks. O(queries x (ranges of
/// keys + KV blocks)).
[[nodiscard]] BlockMask block_mask(const TokenMask& mask, const Lengths& lengths);

}  // namespace stagger::gpu
