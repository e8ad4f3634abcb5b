#include "schedules/search/safe_table.hpp"

#include "schedules/search/chain.hpp"

namespace stagger::search {

Table safe_table(const Problem& problem) {
  std::vector<std::vector<Slot>> lanes(static_cast<std::size_t>(problem.sms));
  std::vector<std::int32_t> ranks;
  Head head{-1};
  std::size_t next = 0;
  for (const Chain& chain : chains_of(problem)) {
    if (chain.head != head) ranks.assign(at(std::int64_t{problem.span} * problem.q_tiles()), 0);
    head = chain.head;
    std::vector<Slot>& lane = lanes[next++ % lanes.size()];
    for (const Task& task : tasks_of(problem, chain)) {
      const std::int64_t member = task.head.value - chain.head.value;
      lane.push_back({task, ranks[at(member * problem.q_tiles() + task.q.value)]++});
    }
  }
  return table_of(problem, lanes);
}

}  // namespace stagger::search
