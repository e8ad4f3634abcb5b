#include "tests/support/lock_play.hpp"

#include <algorithm>
#include <deque>

namespace stagger::test {

LockPlay::LockPlay(const Table& table, Release release, std::int32_t sms)
    : table_(table),
      delayed_(release == Release::delayed),
      ordered_(table.problem.combine == Combine::ordered),
      lanes_(at(table.lanes())) {
  for (Lane lane{0}; lane.value < table.lanes(); ++lane)
    lanes_[at(lane)].next = table.begin_of(lane);
  for (bool moved = true; moved;) {
    moved = false;
    if (launched_ < table.lanes() && launched_ - ended() < sms) {
      ++launched_;
      moved = true;
    }
    for (Lane lane{0}; lane.value < launched_; ++lane)
      moved = step(lane) || moved;
  }
  find_holders();
}

std::int64_t LockPlay::stuck_tasks() const {
  std::int64_t stuck = 0;
  for (Lane lane{0}; lane.value < table_.lanes(); ++lane)
    stuck += table_.end_of(lane) - first_unreduced(lane);
  return stuck;
}

std::vector<dag::Liveness::Hanging> LockPlay::hanging() const {
  std::set<dag::Liveness::Hanging> tiles;
  for (Lane lane{0}; lane.value < table_.lanes(); ++lane) {
    for (std::int64_t slot = first_unreleased(lane); slot < table_.end_of(lane); ++slot)
      tiles.insert({table_.slots[slot].task.head, table_.slots[slot].task.q});
  }
  return {tiles.begin(), tiles.end()};
}

std::vector<dag::Liveness::HangingDkv> LockPlay::hanging_dkv() const {
  std::set<dag::Liveness::HangingDkv> tiles;
  for (Lane lane{0}; ordered_ && lane.value < table_.lanes(); ++lane) {
    for (std::int64_t slot = lanes_[at(lane)].next; slot < table_.end_of(lane); ++slot) {
      const Task& task = table_.slots[slot].task;
      if (table_.ends_chain(lane, slot))
        tiles.insert({table_.problem.kv_head_of(task.head), task.kv});
    }
  }
  return {tiles.begin(), tiles.end()};
}

LockPlay::Awaited LockPlay::awaited(Lane lane) const {
  const auto& [next, reduced] = lanes_[at(lane)];
  const auto& [task, rank] = table_.slots[next];
  const Lock lock = reduced ? dkv_lock(task) : dq_lock(task);
  const Problem& problem = table_.problem;
  return {.lock = lock,
          .rank = reduced ? table_.dkv_rank(task) : rank,
          .value = value_of(lock),
          .ranks = reduced ? problem.dkv_contributions(problem.kv_head_of(task.head), task.kv)
                           : problem.contributions(task)};
}

const std::pair<Lane, std::int64_t>* LockPlay::holder(const Lock& lock, std::int32_t rank) const {
  const auto found = holders_.find({lock, rank});
  return found == holders_.end() ? nullptr : &found->second;
}

std::set<Lane> LockPlay::waits_for(Lane lane) const {
  std::set<Lane> lanes;
  if (lane.value >= launched_) {
    for (Lane other{0}; other.value < launched_; ++other) {
      if (is_stuck(other)) lanes.insert(other);
    }
    return lanes;
  }
  const Awaited wait = awaited(lane);
  for (std::int32_t rank = wait.value; rank < std::min(wait.rank, wait.ranks); ++rank) {
    if (const auto* held = holder(wait.lock, rank)) lanes.insert(held->first);
  }
  return lanes;
}

std::size_t LockPlay::shortest_cycle() const {
  std::size_t shortest = 0;
  for (Lane start{0}; start.value < launched_; ++start) {
    if (!is_stuck(start)) continue;
    std::map<Lane, std::size_t> steps{{start, 0}};
    for (std::deque<Lane> queue{start}; !queue.empty(); queue.pop_front()) {
      const std::size_t next = steps.at(queue.front()) + 1;
      for (const Lane lane : waits_for(queue.front())) {
        if (lane == start && (shortest == 0 || next < shortest)) shortest = next;
        if (steps.emplace(lane, next).second) queue.push_back(lane);
      }
    }
  }
  return shortest;
}

std::int32_t LockPlay::value_of(const Lock& lock) const {
  const auto found = values_.find(lock);
  return found == values_.end() ? 0 : found->second;
}

std::int32_t LockPlay::ended() const {
  std::int32_t ended = 0;
  for (Lane lane{0}; lane.value < launched_; ++lane)
    ended += is_stuck(lane) ? 0 : 1;
  return ended;
}

bool LockPlay::step(Lane lane) {
  if (!is_stuck(lane)) return false;
  auto& [next, reduced] = lanes_[at(lane)];
  const Task& task = table_.slots[next].task;
  const Awaited wait = awaited(lane);
  if (wait.rank != wait.value) return false;
  if (!reduced) {
    if (delayed_ && !table_.begins_chain(lane, next))
      ++values_[dq_lock(table_.slots[next - 1].task)];
    if (!delayed_ || table_.ends_chain(lane, next)) ++values_[dq_lock(task)];
    reduced = ordered_ && table_.ends_chain(lane, next);
    if (!reduced) ++next;
    return true;
  }
  ++values_[dkv_lock(task)];
  reduced = false;
  ++next;
  return true;
}

std::int64_t LockPlay::first_unreduced(Lane lane) const {
  return lanes_[at(lane)].next + (lanes_[at(lane)].reduced ? 1 : 0);
}

std::int64_t LockPlay::first_unreleased(Lane lane) const {
  const std::int64_t slot = first_unreduced(lane);
  const bool within = slot > table_.begin_of(lane) && slot < table_.end_of(lane) &&
                      !table_.begins_chain(lane, slot);
  return delayed_ && within ? slot - 1 : slot;
}

void LockPlay::find_holders() {
  for (Lane lane{0}; lane.value < table_.lanes(); ++lane) {
    for (std::int64_t slot = first_unreleased(lane); slot < table_.end_of(lane); ++slot) {
      const auto& [task, rank] = table_.slots[slot];
      holders_[{dq_lock(task), rank}] = {lane, slot};
    }
    for (std::int64_t slot = lanes_[at(lane)].next; ordered_ && slot < table_.end_of(lane);
         ++slot) {
      const Task& task = table_.slots[slot].task;
      if (!table_.ends_chain(lane, slot)) continue;
      holders_[{dkv_lock(task), table_.dkv_rank(task)}] = {lane, slot};
    }
  }
}

}  // namespace stagger::test
