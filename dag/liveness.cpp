// Whether tasks can run depends on no time: running one task never takes away another's chance,
// and lanes are launched in one order. So there is one largest set of tasks that can run, found by
// playing whatever can be played. Raising the residency only enlarges it, so one pass that
// launches one more lane whenever nothing moves also finds the smallest residency that suffices.

#include "dag/liveness.hpp"

#include "core/rank_places.hpp"
#include "core/shortest_cycle.hpp"
#include "core/waiting.hpp"

#include <algorithm>
#include <queue>
#include <utility>

namespace stagger::dag {
namespace {

constexpr std::int32_t kNone = -1;
constexpr std::size_t kStarvedListed = 100;
constexpr std::int64_t kCycleSearch = std::int64_t{1} << 24;  ///< steps of the search, at most

/// A lane that can be played on; the least far is played first, so that those ahead of it find more
/// done when it is their turn.
struct Playable {
  std::int64_t played = 0;
  Lane lane;
  friend bool operator<(const Playable& left, const Playable& right) {
    return left.played > right.played;
  }
};

class Play {
 public:
  Play(const Table& table, const Timing& timing)
      : table_(table),
        delayed_(timing.release == Release::delayed),
        combines_(table.problem.combine == Combine::ordered),
        q_tiles_(table.problem.q_tiles()),
        dq_tiles_(std::int64_t{table.problem.heads} * q_tiles_),
        locks_(
            dq_tiles_ +
                (combines_ ? std::int64_t{table.problem.heads_kv} * table.problem.kv_tiles() : 0),
            Lock{}),
        next_(table.lane_begin.begin(), table.lane_begin.end() - 1),
        reduced_(table.lanes(), false),
        waiting_(table.lanes()),
        places_(table.problem) {
    result_.residency_available = resident_lanes(table.problem, timing.residency);
  }

  Liveness run() {
    std::int32_t resident = 1;
    while (true) {
      while (launched_ < table_.lanes() && launched_ - ended_ < resident) {
        play(Lane{launched_++});
        while (!playable_.empty()) {
          const Lane lane = playable_.top().lane;
          playable_.pop();
          play(lane);
        }
      }
      if (ended_ == table_.lanes() || launched_ == table_.lanes()) break;
      if (resident == result_.residency_available) report();
      ++resident;
    }
    if (ended_ == table_.lanes()) {
      result_.residency_needed = resident;
      result_.live = resident <= std::max(result_.residency_available, 1);
    } else {
      result_.live = false;
      if (!reported_) report();
    }
    return std::move(result_);
  }

 private:
  /// What a dQ tile's semaphore shows, and how many lanes wait for a higher value: mostly none, so
  /// that a release need not look who.
  struct Lock {
    std::int32_t value = 0;
    std::int32_t waiting = 0;
  };

  [[nodiscard]] std::int64_t place_of(const Task& task) const {
    return std::int64_t{task.head.value} * q_tiles_ + task.q.value;
  }
  [[nodiscard]] std::int64_t dkv_place_of(const Task& task) const {
    return dq_tiles_ + table_.problem.dkv_place(task);
  }
  [[nodiscard]] std::int32_t ranks_of(const Task& task) const {
    return table_.problem.contributions(task);
  }

  [[nodiscard]] std::int32_t dkv_ranks_of(const Task& task) const {
    return table_.problem.dkv_contributions(table_.problem.kv_head_of(task.head), task.kv);
  }

  /// Plays a lane until it ends or waits.
  void play(Lane lane) {
    const std::int64_t end = table_.end_of(lane);
    std::int64_t slot = next_[lane];
    while (slot < end && play(lane, slot))
      ++slot;
    next_[lane] = slot;
    ended_ += slot == end ? 1 : 0;
  }

  bool play(Lane lane, std::int64_t slot) {
    if (!combines_) return reduce(lane, slot);
    if (!reduced_[lane] && !reduce(lane, slot)) return false;
    return !table_.ends_chain(lane, slot) || combine(lane, slot);
  }

  /// Reduces a slot into its dQ tile, or waits for that.
  bool reduce(Lane lane, std::int64_t slot) {
    const auto& [task, rank] = table_.slots[slot];
    const std::int64_t place = place_of(task);
    if (locks_[place].value != rank) {
      await(lane, place, rank);
      return false;
    }
    if (delayed_ && !table_.begins_chain(lane, slot))
      release(place_of(table_.slots[slot - 1].task));
    if (!delayed_ || table_.ends_chain(lane, slot)) release(place);
    return true;
  }

  /// Reduces the chain that a slot ends into dK and dV, or waits for that.
  bool combine(Lane lane, std::int64_t slot) {
    const Task& task = table_.slots[slot].task;
    const std::int64_t place = dkv_place_of(task);
    const std::int32_t rank = table_.dkv_rank(task);
    reduced_[lane] = locks_[place].value != rank;
    if (reduced_[lane]) {
      await(lane, place, rank);
      return false;
    }
    release(place);
    return true;
  }

  /// Waits for a value, unless the lock has shown it for the last time.
  void await(Lane lane, std::int64_t place, std::int32_t rank) {
    if (rank < locks_[place].value) return;
    ++locks_[place].waiting;
    waiting_.add(lane, place, rank);
  }

  void release(std::int64_t place) {
    Lock& lock = locks_[place];
    ++lock.value;
    if (lock.waiting > 0) wake(place, lock);
  }

  void wake(std::int64_t place, Lock& lock) {
    const Lane lane = waiting_.take(place, lock.value);
    if (lane == waiting_.kNobody) return;
    --lock.waiting;
    playable_.push({.played = next_[lane] - table_.begin_of(lane), .lane = lane});
  }

  // ---- what hangs -----------------------------------------------------------------------------

  void report() {
    index_stuck();
    for (Lane lane{0}; lane.value < launched_; ++lane) {
      if (next_[lane] == table_.end_of(lane)) continue;
      if (const Wait wait = wait_of(lane); !wait.promised) {
        if (result_.starved.size() < kStarvedListed) result_.starved.push_back(wait);
      }
    }
    result_.cycle = shortest_cycle();
  }

  /// Notes which slot holds each rank that has not been released, and which tiles hang.
  void index_stuck() {
    reported_ = true;
    dq_holders_.assign(places_.size(), Holder{});
    dkv_holders_.assign(combines_ ? table_.problem.chains() : 0, Holder{});
    for (Lane lane{0}; lane.value < table_.lanes(); ++lane)
      index_stuck(lane);
    sort_unique(result_.hanging);
    sort_unique(result_.hanging_dkv);
  }

  void index_stuck(Lane lane) {
    std::int64_t slot = next_[lane];
    if (combines_) index_stuck_chains(lane, slot);
    if (slot < table_.end_of(lane) && reduced_[lane]) ++slot;  // its dQ is done, and released
    result_.stuck_tasks += table_.end_of(lane) - slot;
    const bool holds = delayed_ && slot < table_.end_of(lane) && slot > table_.begin_of(lane) &&
                       !table_.ends_chain(lane, slot - 1);
    if (holds) --slot;  // reduced, but released only by the next one
    for (; slot < table_.end_of(lane); ++slot) {
      const auto& [task, rank] = table_.slots[slot];
      result_.hanging.push_back({task.head, task.q});
      if (rank < 0 || rank >= ranks_of(task)) continue;
      dq_holders_[places_.of(task, rank)] = {static_cast<std::int32_t>(slot), lane};
    }
  }

  /// The chains from a slot on that have not been reduced into dK and dV.
  void index_stuck_chains(Lane lane, std::int64_t slot) {
    for (; slot < table_.end_of(lane); ++slot) {
      if (!table_.ends_chain(lane, slot)) continue;
      const Task& task = table_.slots[slot].task;
      result_.hanging_dkv.push_back({table_.problem.kv_head_of(task.head), task.kv});
      const std::int32_t rank = table_.dkv_rank(task);
      if (rank < 0 || rank >= dkv_ranks_of(task)) continue;
      dkv_holders_[dkv_rank_place(task, rank)] = {static_cast<std::int32_t>(slot), lane};
    }
  }

  template <class Tile>
  static void sort_unique(std::vector<Tile>& tiles) {
    std::sort(tiles.begin(), tiles.end());
    tiles.erase(std::unique(tiles.begin(), tiles.end()), tiles.end());
  }

  [[nodiscard]] std::int64_t dkv_rank_place(const Task& task, std::int32_t rank) const {
    return table_.problem.dkv_place(task) * table_.problem.group_parts() + rank;
  }

  /// What a stuck lane's next task waits for; by default the release of the rank before its own.
  [[nodiscard]] Wait wait_of(Lane lane) const {
    const auto& [task, rank] = table_.slots[next_[lane]];
    Wait wait;
    wait.lane = lane;
    wait.launched = lane.value < launched_;
    wait.task = task;
    wait.dkv = reduced_[lane];
    wait.kv_head = table_.problem.kv_head_of(task.head);
    wait.rank = wait.dkv ? table_.dkv_rank(task) : rank;
    wait.value = locks_[wait.dkv ? dkv_place_of(task) : place_of(task)].value;
    if (!wait.launched) return wait;
    wait.promised = false;
    if (wait.rank > wait.value && wait.rank < ranks_of(wait)) point_at(wait.rank - 1, wait);
    return wait;
  }

  [[nodiscard]] std::int32_t ranks_of(const Wait& wait) const {
    return wait.dkv ? dkv_ranks_of(wait.task) : ranks_of(wait.task);
  }

  void point_at(std::int32_t rank, Wait& wait) const {
    const Holder& holder = wait.dkv ? dkv_holders_[dkv_rank_place(wait.task, rank)]
                                    : dq_holders_[places_.of(wait.task, rank)];
    wait.promised = holder.slot != kNone;
    if (!wait.promised) return;
    wait.for_task = table_.slots[holder.slot].task;
    wait.for_rank = rank;
    wait.for_lane = holder.lane;
  }

  /// Calls `visit(wait)` for every way in which a lane waits for another, until it says no or the
  /// budget is spent: for each unreleased rank below its own, or, not launched, for each lane that
  /// holds an SM.
  template <class Visit>
  void each_wait(Lane lane, std::int64_t& budget, Visit visit) const {
    Wait wait = wait_of(lane);
    if (!wait.launched) {
      for (Lane holder{0}; holder.value < launched_ && --budget > 0; ++holder) {
        if (next_[holder] == table_.end_of(holder)) continue;
        wait.for_lane = holder;
        if (!visit(wait)) return;
      }
      return;
    }
    const std::int32_t last = std::min(wait.rank, ranks_of(wait)) - 1;
    for (std::int32_t rank = last; rank >= wait.value && --budget > 0; --rank) {
      point_at(rank, wait);
      if (wait.promised && !visit(wait)) return;
    }
  }

  /// Where the budget ends first: the best so far, or the cycle that a walk finds.
  [[nodiscard]] std::vector<Wait> shortest_cycle() const {
    ShortestCycle<Wait, &Wait::lane, &Wait::for_lane> cycles(table_.lanes(), kCycleSearch);
    std::vector<Wait> best = cycles.search(
        Lane{launched_}, [&](Lane lane) { return next_[lane] != table_.end_of(lane); },
        [&](Lane lane, std::int64_t& budget, auto visit) { each_wait(lane, budget, visit); });
    if (cycles.complete()) return best;
    std::vector<Wait> walked = walked_cycle();
    return best.empty() || (!walked.empty() && walked.size() < best.size()) ? walked : best;
  }

  /// A lane's wait for the rank before its own, or, not launched, for `holder`, which has an SM.
  [[nodiscard]] Wait first_wait(Lane lane, Lane holder) const {
    Wait wait = wait_of(lane);
    if (!wait.launched) wait.for_lane = holder;
    return wait;
  }

  /// The first cycle that walks from stuck lanes along their first waits come to. With ranks
  /// 0 … k-1 there is one wherever a lane is stuck. O(lanes).
  [[nodiscard]] std::vector<Wait> walked_cycle() const {
    IndexVector<Lane, Lane> walked_from(table_.lanes(), Lane{kNone});
    for (Lane start{0}; start.value < launched_; ++start) {
      if (next_[start] == table_.end_of(start)) continue;
      Lane lane = start;
      bool goes_on = true;
      while (goes_on && walked_from[lane].value == kNone) {
        walked_from[lane] = start;
        const Wait wait = first_wait(lane, start);
        goes_on = wait.promised;
        if (goes_on) lane = wait.for_lane;
      }
      if (!goes_on || walked_from[lane] != start) continue;
      std::vector<Wait> cycle = {first_wait(lane, start)};
      while (cycle.back().for_lane != lane)
        cycle.push_back(first_wait(cycle.back().for_lane, start));
      return cycle;
    }
    return {};
  }

  const Table& table_;
  bool delayed_;
  bool combines_;  ///< chains are reduced into dK and dV, in order
  std::int32_t q_tiles_;
  std::int64_t dq_tiles_;                  ///< of all heads
  IndexVector<std::int64_t, Lock> locks_;  ///< by (head, q), then those of dK and dV
  IndexVector<Lane, std::int64_t> next_;   ///< the slot that a lane is at
  IndexVector<Lane, bool> reduced_;  ///< what is left of that is its chain's reduction into dK, dV
  Waiting<Lane> waiting_;
  std::priority_queue<Playable> playable_;
  std::int32_t launched_ = 0;
  std::int32_t ended_ = 0;
  RankPlaces places_;
  /// The slot that has a rank and has not released it.
  struct Holder {
    std::int32_t slot = kNone;
    Lane lane{kNone};
  };
  IndexVector<std::int64_t, Holder> dq_holders_;   ///< by (head, q, rank)
  IndexVector<std::int64_t, Holder> dkv_holders_;  ///< by (KV head, kv, rank)
  bool reported_ = false;
  Liveness result_;
};

}  // namespace

Liveness check_liveness(const Table& table, const Timing& timing) {
  return Play(table, timing).run();
}

}  // namespace stagger::dag
