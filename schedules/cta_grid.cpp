#include "schedules/cta_grid.hpp"

#include "schedules/by_grid.hpp"

#include <algorithm>

namespace stagger::schedules {
namespace {

std::vector<Head> ordered_heads(const Problem& problem, LaunchOrder order) {
  std::vector<Head> heads;
  for (Head head{0}; head.value < problem.heads; ++head)
    heads.push_back(head);
  if (order == LaunchOrder::member) {
    std::ranges::stable_sort(heads, {}, [&](Head head) { return head.value % problem.group(); });
  }
  return heads;
}

}  // namespace

Launch::Launch(const Parameters& parameters)
    : swizzle(parameters.contains(kSwizzle.name) ? parameters.at(kSwizzle.name) : 1),
      order(static_cast<LaunchOrder>(parameters.at(kLaunchOrder.name))) {}

void launch_ctas(const Problem& problem, const Launch& launch, KvOrder kv_order, QOrder q_order,
                 Table& table) {
  const ByGrid<std::vector<KvTile>> kv_orders(problem, kv_order);
  const ByGrid<IndexVector<KvTile, std::vector<QTile>>> q_orders(problem, q_order);
  const std::int64_t q_tiles = problem.q_tiles();
  IndexVector<std::int64_t, std::int32_t> launched(problem.heads * q_tiles, 0);  // by (head, q)
  const std::vector<Head> heads = ordered_heads(problem, launch.order);
  for (std::int64_t first = 0; first < problem.heads; first += launch.swizzle) {
    const std::int64_t last = std::min<std::int64_t>(first + launch.swizzle, problem.heads);
    for (std::int32_t turn = 0; turn < problem.kv_tiles(); ++turn) {
      for (std::int64_t place = first; place < last; ++place) {
        const Head head = heads[at(place)];
        const KvTile kv = kv_orders.of(head)[at(turn)];
        const std::vector<QTile>& chain = q_orders.of(head)[kv];
        if (chain.empty()) continue;  // the kernel's CTA returns at once
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
