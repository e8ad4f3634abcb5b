#include "schedules/search/safe_table.hpp"

#include "schedules/search/chain.hpp"

namespace stagger::search {

Table safe_table(const Problem& problem) {
  std::vector<std::vector<Slot>> lanes(static_cast<std::size_t>(problem.sms));
  std::vector<std::int32_t> ranks;
  Head head{-1};
  std::size_t next = 0;
  for (const Chain& chain : chains_of(problem)) {
    if (chain.head != head) ranks.assign(static_cast<std::size_t>(problem.q_tiles()), 0);
    head = chain.head;
    std::vector<Slot>& lane = lanes[next++ % lanes.size()];
    for (const QTile q : problem.grid_of(chain.head).live_q(chain.kv)) {
      lane.push_back({{head, chain.kv, q}, ranks[static_cast<std::size_t>(q.value)]++});
    }
  }
  return table_of(problem, lanes);
}

}  // namespace stagger::search
