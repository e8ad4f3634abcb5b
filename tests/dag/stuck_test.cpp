// All that is said of a table that hangs, against a play of the locks step by step: what never
// runs, who waits for what, which tiles hang, and how long the shortest cycle of waits is.

#include "dag/liveness.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

namespace stagger::dag {
namespace {

/// A semaphore: of a dQ tile (head, q), or of a KV tile's dK and dV (KV head, kv).
using Lock = std::tuple<bool, std::int32_t, std::int32_t>;

/// A table played as far as it goes: whatever may move does, one step at a time.
class Played {
 public:
  Played(const Table& table, Release release, std::int32_t sms)
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

  [[nodiscard]] bool complete() const { return ended() == table_.lanes(); }

  [[nodiscard]] std::int64_t stuck_tasks() const {
    std::int64_t stuck = 0;
    for (Lane lane{0}; lane.value < table_.lanes(); ++lane)
      stuck += table_.end_of(lane) - first_unreduced(lane);
    return stuck;
  }

  /// The (head, q) of which something was not reduced or not released.
  [[nodiscard]] std::vector<Liveness::Hanging> hanging() const {
    std::set<Liveness::Hanging> tiles;
    for (Lane lane{0}; lane.value < table_.lanes(); ++lane) {
      for (std::int64_t slot = first_unreleased(lane); slot < table_.end_of(lane); ++slot)
        tiles.insert({table_.slots[slot].task.head, table_.slots[slot].task.q});
    }
    return {tiles.begin(), tiles.end()};
  }

  [[nodiscard]] std::vector<Liveness::HangingDkv> hanging_dkv() const {
    std::set<Liveness::HangingDkv> tiles;
    for (Lane lane{0}; ordered_ && lane.value < table_.lanes(); ++lane) {
      for (std::int64_t slot = lanes_[at(lane)].next; slot < table_.end_of(lane); ++slot) {
        const Task& task = table_.slots[slot].task;
        if (table_.ends_chain(lane, slot))
          tiles.insert({table_.problem.kv_head_of(task.head), task.kv});
      }
    }
    return {tiles.begin(), tiles.end()};
  }

  /// Whether a lane has begun and not ended.
  [[nodiscard]] bool is_stuck(Lane lane) const {
    return lane.value < launched_ && lanes_[at(lane)].next < table_.end_of(lane);
  }
  [[nodiscard]] std::int32_t launched() const { return launched_; }

  /// What a stuck lane waits for: lock, the value it needs and the one it sees.
  struct Awaited {
    Lock lock;
    std::int32_t rank = 0;
    std::int32_t value = 0;
    std::int32_t ranks = 0;
  };
  [[nodiscard]] Awaited awaited(Lane lane) const {
    const auto& [next, reduced] = lanes_[at(lane)];
    const auto& [task, rank] = table_.slots[next];
    const Lock lock = reduced ? dkv_lock(task) : dq_lock(task);
    return {.lock = lock,
            .rank = reduced ? table_.dkv_rank(task) : rank,
            .value = value_of(lock),
            .ranks =
                reduced ? table_.problem.group_parts() : table_.problem.grid.contributions(task.q)};
  }

  /// The lane and slot that have a rank of a lock and have not released it.
  [[nodiscard]] const std::pair<Lane, std::int64_t>* holder(const Lock& lock,
                                                            std::int32_t rank) const {
    const auto found = holders_.find({lock, rank});
    return found == holders_.end() ? nullptr : &found->second;
  }

  /// The lanes that a lane waits for, each at most once.
  [[nodiscard]] std::set<Lane> waits_for(Lane lane) const {
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

  /// Waits of the shortest cycle of waits; 0 if there is none.
  [[nodiscard]] std::size_t shortest_cycle() const {
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

 private:
  struct State {
    std::int64_t next = 0;
    bool reduced = false;  ///< and only the chain's reduction into dK and dV is left of it
  };

  [[nodiscard]] static Lock dq_lock(const Task& task) {
    return {false, task.head.value, task.q.value};
  }
  [[nodiscard]] Lock dkv_lock(const Task& task) const {
    return {true, table_.problem.kv_head_of(task.head).value, task.kv.value};
  }
  [[nodiscard]] std::int32_t value_of(const Lock& lock) const {
    const auto found = values_.find(lock);
    return found == values_.end() ? 0 : found->second;
  }
  [[nodiscard]] std::int32_t ended() const {
    std::int32_t ended = 0;
    for (Lane lane{0}; lane.value < launched_; ++lane)
      ended += is_stuck(lane) ? 0 : 1;
    return ended;
  }

  bool step(Lane lane) {
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

  [[nodiscard]] std::int64_t first_unreduced(Lane lane) const {
    return lanes_[at(lane)].next + (lanes_[at(lane)].reduced ? 1 : 0);
  }
  [[nodiscard]] std::int64_t first_unreleased(Lane lane) const {
    const std::int64_t slot = first_unreduced(lane);
    const bool within = slot > table_.begin_of(lane) && slot < table_.end_of(lane) &&
                        !table_.begins_chain(lane, slot);
    return delayed_ && within ? slot - 1 : slot;
  }

  void find_holders() {
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

  const Table& table_;
  bool delayed_;
  bool ordered_;
  std::vector<State> lanes_;
  std::int32_t launched_ = 0;
  std::map<Lock, std::int32_t> values_;
  std::map<std::pair<Lock, std::int32_t>, std::pair<Lane, std::int64_t>> holders_;
};

/// Compares the facts of one wait with the play's.
void check_wait(const Table& table, const Played& played, const Wait& wait) {
  REQUIRE(wait.launched == (wait.lane.value < played.launched()));
  if (!wait.launched) {
    REQUIRE(played.is_stuck(wait.for_lane));
    return;
  }
  const Played::Awaited awaited = played.awaited(wait.lane);
  REQUIRE(wait.dkv == std::get<0>(awaited.lock));
  REQUIRE(wait.rank == awaited.rank);
  REQUIRE(wait.value == awaited.value);
  REQUIRE(wait.kv_head == table.problem.kv_head_of(wait.task.head));
  REQUIRE((wait.dkv ? wait.kv_head.value : wait.task.head.value) == std::get<1>(awaited.lock));
  REQUIRE((wait.dkv ? wait.task.kv.value : wait.task.q.value) == std::get<2>(awaited.lock));
  if (!wait.promised) return;
  REQUIRE(wait.for_rank >= wait.value);
  REQUIRE(wait.for_rank < wait.rank);
  const auto* held = played.holder(awaited.lock, wait.for_rank);
  REQUIRE(held != nullptr);
  REQUIRE(held->first == wait.for_lane);
  REQUIRE(table.slots[held->second].task == wait.for_task);
}

/// The lanes whose wait nobody ends, though one that has no rank to wait for has none either.
std::vector<Lane> starved_lanes(const Table& table, const Played& played) {
  std::vector<Lane> starved;
  for (Lane lane{0}; lane.value < table.lanes(); ++lane) {
    if (!played.is_stuck(lane)) continue;
    const Played::Awaited wait = played.awaited(lane);
    const bool may_come = wait.rank > wait.value && wait.rank < wait.ranks;
    if (!may_come || played.holder(wait.lock, wait.rank - 1) == nullptr) starved.push_back(lane);
  }
  return starved;
}

void check_stuck(const Table& table, const Timing& timing, const Liveness& liveness) {
  const Played played(table, timing.release, std::max(liveness.residency_available, 1));
  REQUIRE_FALSE(played.complete());
  REQUIRE(liveness.stuck_tasks == played.stuck_tasks());
  REQUIRE(liveness.hanging == played.hanging());
  REQUIRE(liveness.hanging_dkv == played.hanging_dkv());
  REQUIRE(liveness.cycle.size() == played.shortest_cycle());
  for (std::size_t index = 0; index < liveness.cycle.size(); ++index) {
    const Wait& wait = liveness.cycle[index];
    check_wait(table, played, wait);
    REQUIRE((wait.promised || !wait.launched));
    REQUIRE(wait.for_lane == liveness.cycle[(index + 1) % liveness.cycle.size()].lane);
  }
  std::vector<Lane> starved;
  for (const Wait& wait : liveness.starved) {
    check_wait(table, played, wait);
    REQUIRE_FALSE(wait.promised);
    starved.push_back(wait.lane);
  }
  REQUIRE(starved == starved_lanes(table, played));
}

/// Lock values that are no order, none twice: one that nobody waits for, or those of KV tiles.
void spoil_ranks(test::Random& random, Table& table) {
  if (table.slots.empty()) return;
  Slot& slot = table.slots[random.between(0, std::ssize(table.slots) - 1)];
  const std::int32_t ranks = table.problem.grid.contributions(slot.task.q);
  switch (random.between(0, 4)) {
    case 0:
      use_kv_index_ranks(table);
      break;
    case 1:
      slot.rank = -1;
      break;
    case 2:
      slot.rank = ranks + static_cast<std::int32_t>(random.between(0, 2));
      break;
    default:
      break;
  }
  if (!table.dkv_ranks.empty() && random.chance(4)) {
    table.dkv_ranks[table.problem.chain_place(slot.task)] = random.chance(2) ? -1 : 99;
  }
}

TEST_CASE("what is said of a table that hangs is what a play of its locks shows") {
  test::Random random(test::seed(47));
  std::int64_t hanging = 0;
  std::int64_t starving = 0;
  std::int64_t in_dkv = 0;
  std::int64_t unlaunched = 0;
  for (int round = 0; round < 4'000; ++round) {
    Problem problem = test::random_problem(random, 4);
    if (random.chance(2)) problem = test::with_random_groups(random, std::move(problem), 3);
    const Dispatch dispatch = random.chance(2) ? Dispatch::static_ : Dispatch::in_order;
    Table table = random.chance(3) ? test::random_live_table(random, problem, dispatch)
                                   : test::random_table(random, problem, dispatch);
    if (problem.combine == Combine::ordered && random.chance(2))
      test::shuffle_dkv_ranks(random, table);
    spoil_ranks(random, table);
    const Timing timing = test::random_timing(random, problem);
    CAPTURE(round, problem.heads, problem.span, problem.sms, timing.residency,
            timing.release == Release::delayed, dispatch == Dispatch::static_);
    const Liveness liveness = check_liveness(table, timing);
    const std::int32_t resident = resident_lanes(problem, timing.residency);
    REQUIRE(liveness.residency_available == resident);
    std::int32_t needed = 0;
    for (std::int32_t sms = 1; sms <= std::max(table.lanes(), 1) && needed == 0; ++sms) {
      if (Played(table, timing.release, sms).complete()) needed = sms;
    }
    REQUIRE(liveness.residency_needed == needed);
    REQUIRE(liveness.live == (needed > 0 && needed <= resident));
    if (liveness.live) continue;
    check_stuck(table, timing, liveness);
    ++hanging;
    starving += liveness.starved.empty() ? 0 : 1;
    in_dkv += liveness.hanging_dkv.empty() ? 0 : 1;
    for (const Wait& wait : liveness.cycle)
      unlaunched += wait.launched ? 0 : 1;
  }
  CHECK(hanging > 1'000);
  CHECK(starving > 200);
  CHECK(in_dkv > 200);
  CHECK(unlaunched > 50);
}

}  // namespace
}  // namespace stagger::dag
