#include "workbench/designs/lanes.hpp"

#include <algorithm>

namespace stagger::designs {

std::int32_t chain_tasks(const TileGrid& grid, Keeps keeps, std::int32_t tile) {
  return keeps == Keeps::kv ? grid.chain_length({tile}) : grid.contributions({tile});
}

FreeLanes a_lane_each(const Problem& problem, Keeps keeps, std::int32_t gemms, std::int32_t heads,
                      Launched launched) {
  const TileGrid& grid = problem.common_grid();
  std::vector<Chain> chains;
  for (std::int32_t head = 0; head < problem.heads; head += heads) {
    for (std::int32_t tile = 0; tile < (keeps == Keeps::kv ? grid.kv_tiles() : grid.q_tiles());
         ++tile) {
      if (chain_tasks(grid, keeps, tile) == 0) continue;
      chains.push_back(
          {.head = {head}, .heads = heads, .tile = tile, .keeps = keeps, .gemms = gemms});
    }
  }
  if (launched == Launched::longest_first) {
    std::ranges::stable_sort(chains, [&](const Chain& left, const Chain& right) {
      return chain_tasks(grid, keeps, left.tile) > chain_tasks(grid, keeps, right.tile);
    });
  }
  FreeLanes lanes;
  for (const Chain& chain : chains) {
    lanes.chains.push_back(chain);
    lanes.end_lane();
  }
  return lanes;
}

}  // namespace stagger::designs
