#pragma once

#include "core/index.hpp"
#include "core/mask.hpp"
#include "core/tile_grid.hpp"

#include <compare>
#include <cstdint>
#include <string>

namespace stagger {

/// One live tile of one head: compute, then reduce into dQ[head, q].
struct Task {
  Head head;
  KvTile kv;
  QTile q;

  friend constexpr auto operator<=>(const Task&, const Task&) = default;
};

/// `(head 0, kv 3, q 5)`.
[[nodiscard]] std::string describe(const Task& task);

/// What is to be scheduled: `heads` copies of one tile grid on `sms` SMs.
struct Problem {
  std::int32_t heads = 1;
  std::int32_t sms = 1;
  Mask mask;        ///< where the grid comes from
  Lengths lengths;  ///< tokens
  TileShape shape;  ///< tokens a tile
  TileGrid grid;    ///< == tile(mask, lengths, shape)

  [[nodiscard]] std::int64_t tasks() const { return heads * grid.live_tiles(); }
  [[nodiscard]] bool contains(const Task& task) const {
    return task.head.value >= 0 && task.head.value < heads && grid.contains(task.kv, task.q);
  }
};

/// Tiles the mask and checks every size. `sms` = 0 means one SM per KV tile, the paper's
/// assumption. Throws Error{usage} if heads or SMs are out of range, Error{limit} above
/// core/limits.hpp, and what tile() throws.
[[nodiscard]] Problem make_problem(Mask mask, const Lengths& lengths, const TileShape& shape,
                                   std::int64_t heads, std::int64_t sms);

/// One line: `causal, 8 KV x 8 Q tiles, 4 heads on 8 SMs: 144 tasks`.
[[nodiscard]] std::string describe(const Problem& problem);

}  // namespace stagger
