#pragma once

#include "core/problem.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace stagger::search {

// What a unit of effort buys. Work is counted in steps and not in time, so that the same effort
// gives the same table on every machine.

inline constexpr std::int64_t kScans =
    10'000'000;                                  ///< steps of list scheduling, by rules and moves
inline constexpr std::int64_t kPlays = 100'000;  ///< tasks that polishing plays

/// Steps of one list scheduling of a problem: for every task of a chain it looks at all of them.
[[nodiscard]] inline std::int64_t scans_of(const Problem& problem) {
  const std::vector<std::int32_t> heads = problem.grids.counts(problem.heads);
  std::int64_t steps = 0;
  for (std::size_t place = 0; place < heads.size(); ++place) {
    const TileGrid& grid = problem.grids.distinct()[place];
    for (KvTile kv{0}; kv.value < grid.kv_tiles(); ++kv) {
      const std::int64_t length = grid.chain_length(kv);
      steps += heads[place] * length * length;
    }
  }
  return std::max<std::int64_t>(steps, 1);
}

/// Rules that list scheduling may try with an effort: at least one.
[[nodiscard]] inline std::int64_t most_rules(const Problem& problem, std::int64_t effort) {
  return 1 + effort * kScans / scans_of(problem);
}

}  // namespace stagger::search
