#include "schedules/cta_grid.hpp"

#include <algorithm>

namespace stagger::schedules {

void launch_ctas(const Problem& problem, std::int64_t swizzle, std::span<const KvTile> kv_order,
                 const IndexVector<KvTile, std::vector<QTile>>& q_order, Table& table) {
  const std::int64_t q_tiles = problem.grid.q_tiles();
  IndexVector<std::int64_t, std::int32_t> launched(problem.heads * q_tiles, 0);  // by (head, q)
  for (std::int64_t first = 0; first < problem.heads; first += swizzle) {
    const std::int64_t last = std::min<std::int64_t>(first + swizzle, problem.heads);
    for (const KvTile kv : kv_order) {
      const std::vector<QTile>& chain = q_order[kv];
      if (chain.empty()) continue;  // the kernel's CTA returns at once
      for (Head head{static_cast<std::int32_t>(first)}; head.value < last; ++head) {
        std::int32_t* ranks = &launched[head.value * q_tiles];
        for (const QTile q : chain)
          table.slots.push_back({{head, kv, q}, ranks[q.value]++});
        table.end_lane();
      }
    }
  }
}

IndexVector<KvTile, std::vector<QTile>> ascending_q(const TileGrid& grid) {
  IndexVector<KvTile, std::vector<QTile>> chains;
  for (KvTile kv{0}; kv.value < grid.kv_tiles(); ++kv)
    chains.push_back(grid.live_q(kv));
  return chains;
}

IndexVector<KvTile, std::vector<QTile>> descending_q(const TileGrid& grid) {
  IndexVector<KvTile, std::vector<QTile>> chains = ascending_q(grid);
  for (auto& chain : chains)
    std::reverse(chain.begin(), chain.end());
  return chains;
}

std::vector<KvTile> ascending_kv(const TileGrid& grid) {
  std::vector<KvTile> order;
  for (KvTile kv{0}; kv.value < grid.kv_tiles(); ++kv)
    order.push_back(kv);
  return order;
}

std::vector<KvTile> descending_kv(const TileGrid& grid) {
  std::vector<KvTile> order = ascending_kv(grid);
  std::reverse(order.begin(), order.end());
  return order;
}

std::vector<KvTile> longest_first_kv(const TileGrid& grid) {
  std::vector<KvTile> order = ascending_kv(grid);
  std::stable_sort(order.begin(), order.end(), [&](KvTile left, KvTile right) {
    return grid.chain_length(left) > grid.chain_length(right);
  });
  return order;
}

}  // namespace stagger::schedules
