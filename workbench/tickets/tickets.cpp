#include "workbench/tickets/tickets.hpp"

#include "core/error.hpp"

#include <algorithm>

namespace stagger::tickets {

Program Tickets::program_of(std::int64_t step) const {
  STAGGER_EXPECTS(step >= 0 && step < std::ssize(steps));
  const auto behind = std::upper_bound(program_begin.begin(), program_begin.end(), step);
  return Program{static_cast<std::int32_t>(behind - program_begin.begin()) - 1};
}

Tickets from_table(const Table& table) {
  const Problem& problem = table.problem;
  const std::int64_t dq_tiles = std::int64_t{problem.heads} * problem.q_tiles();
  const bool combines = problem.combine == Combine::ordered;
  const std::int64_t dkv_tiles = combines ? std::int64_t{problem.heads_kv} * problem.kv_tiles() : 0;
  Tickets tickets{.name = table.name, .dispatch = table.dispatch, .residency = problem.sms};
  tickets.initial.assign(dq_tiles + dkv_tiles, 0);
  tickets.steps.reserve(std::ssize(table.slots));
  for (Lane lane{0}; lane.value < table.lanes(); ++lane) {
    for (std::int64_t slot = table.begin_of(lane); slot < table.end_of(lane); ++slot) {
      const auto& [task, rank] = table.slots[slot];
      const std::int64_t place = std::int64_t{task.head.value} * problem.q_tiles() + task.q.value;
      const std::int64_t chain = problem.chain_place(task);
      tickets.steps.push_back({.semaphore = Semaphore{static_cast<std::int32_t>(place)},
                               .wait = rank,
                               .task = task,
                               .chain = chain});
      if (!combines || !table.ends_chain(lane, slot)) continue;
      const std::int64_t dkv_place = dq_tiles + problem.dkv_place(task);
      tickets.steps.push_back({.semaphore = Semaphore{static_cast<std::int32_t>(dkv_place)},
                               .wait = table.dkv_rank(task),
                               .reduces = false,
                               .task = {task.head, task.kv, QTile{-1}},
                               .chain = chain});
    }
    tickets.end_program();
  }
  return tickets;
}

}  // namespace stagger::tickets
