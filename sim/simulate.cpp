// The simulator runs ahead instead of stepping through time. A lane is played until it needs a turn
// that has not been released; it then waits at that lock and is taken up again by the release.
// Every time is the maximum of times that are final, so the order in which lanes are played does
// not matter, and no event queue is needed.
//
// Only dispatch depends on the order of events: the next lane goes to the SM that frees first. When
// no lane can be played on, every waiting lane waits, directly or not, for a lane not yet launched,
// and so ends later than the earliest end known: that end is the next to come.

#include "sim/simulate.hpp"

#include "core/error.hpp"
#include "core/rank_places.hpp"
#include "sim/lane_clock.hpp"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

namespace stagger::sim {
namespace {

constexpr std::int32_t kNobody = -1;

std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

/// The semaphore of one dQ tile.
struct Lock {
  std::int32_t value = 0;  ///< the rank whose turn it is
  Ticks released = 0;      ///< when it became `value`
};

/// How far a lane has come.
struct Cursor {
  std::int64_t slot = 0;  ///< the next to reduce
  bool computed = false;  ///< whether it has been handed over
  LaneClock clock;
};

class Simulator {
 public:
  Simulator(const Table& table, const Timing& timing)
      : table_(table),
        timing_(timing),
        rule_(table, timing),
        q_tiles_(table.problem.grid.q_tiles()),
        locks_(at(std::int64_t{table.problem.heads} * q_tiles_)),
        places_(table.problem),
        waiting_(places_.size(), kNobody),
        cursors_(at(table.lanes())) {
    result_.reduce_start.assign(table.slots.size(), -1);
    result_.lanes.resize(at(table.lanes()));
  }

  Simulation run() {
    const std::int32_t resident = resident_lanes(table_.problem, timing_.residency);
    for (Sm sm{0}; sm.value < resident; ++sm)
      ends_.emplace(0, sm.value);
    while (next_.value < table_.lanes() && !ends_.empty()) {
      const auto [time, sm] = ends_.top();
      ends_.pop();
      launch(Sm{sm}, time);
      // Lanes that start at 0 may be played in any order; later ones need every end known.
      if (time == 0 && next_.value < resident) continue;
      play_all();
    }
    play_all();
    for (const Cursor& cursor : cursors_) {
      result_.makespan = std::max(result_.makespan, cursor.clock.end());
      result_.last_reduction = std::max(result_.last_reduction, cursor.clock.writer_free);
    }
    result_.complete = done_ == std::ssize(table_.slots);
    return std::move(result_);
  }

 private:
  void launch(Sm sm, Ticks time) {
    LaneRun& lane = result_.lanes[at(next_.value)];
    lane.sm = sm;
    lane.start = time;
    Cursor& cursor = cursors_[at(next_.value)];
    cursor.slot = table_.lane_begin[at(next_.value)];
    cursor.clock.free = time;
    playable_.push_back(next_.value);
    ++next_;
  }

  void play_all() {
    while (!playable_.empty()) {
      const Lane lane{playable_.back()};
      playable_.pop_back();
      play(lane);
    }
  }

  /// Plays a lane until it ends or waits for a turn.
  void play(Lane lane) {
    Cursor& cursor = cursors_[at(lane.value)];
    const std::int64_t begin = table_.lane_begin[at(lane.value)];
    const std::int64_t end = table_.lane_begin[at(lane.value) + 1];
    for (; cursor.slot < end; ++cursor.slot) {
      const Slot& slot = table_.slots[at(cursor.slot)];
      const bool first = begins_chain(&table_.slots[at(begin)], &slot);
      const bool last = cursor.slot + 1 == end || begins_chain(&table_.slots[at(begin)], &slot + 1);
      if (!cursor.computed) {
        rule_.compute(slot.task, rule_.launch(first, cursor.clock).end, cursor.clock);
        cursor.computed = true;
      }
      Lock& lock = lock_of(slot.task);
      if (lock.value != slot.rank) {
        waiting_[places_.of(slot.task, slot.rank)] = lane.value;
        return;
      }
      reduce(slot, lock, first, last, cursor);
    }
    result_.lanes[at(lane.value)].end = cursor.clock.end();
    ends_.emplace(cursor.clock.end(), result_.lanes[at(lane.value)].sm.value);
  }

  void reduce(const Slot& slot, Lock& lock, bool first, bool last, Cursor& cursor) {
    const Ticks turn = slot.rank == 0 ? 0 : lock.released + timing_.latency;
    const Ticks start = std::max(cursor.clock.handed, turn);
    rule_.reduce(start, last, cursor.clock);
    result_.reduce_start[at(cursor.slot)] = start;
    cursor.computed = false;
    ++done_;

    const bool delayed = timing_.release == Release::delayed;
    if (delayed && !first) release_previous(slot, start);
    if (!delayed || last) release(slot.task, lock, start + timing_.reduce);
  }

  /// Delayed release: the chain's previous task lets go when this one's reduction is under way.
  void release_previous(const Slot& slot, Ticks start) {
    const Task& previous = (&slot - 1)->task;
    release(previous, lock_of(previous), start + timing_.reduce / 2);
  }

  void release(const Task& task, Lock& lock, Ticks time) {
    ++lock.value;
    lock.released = time;
    if (lock.value == table_.problem.grid.contributions(task.q)) return;
    std::int32_t& waiting = waiting_[places_.of(task, lock.value)];
    if (waiting != kNobody) playable_.push_back(std::exchange(waiting, kNobody));
  }

  Lock& lock_of(const Task& task) {
    return locks_[at(std::int64_t{task.head.value} * q_tiles_ + task.q.value)];
  }
  const Table& table_;
  const Timing& timing_;
  LaneRule rule_;
  std::int32_t q_tiles_;
  std::vector<Lock> locks_;  ///< by (head, q)
  RankPlaces places_;
  std::vector<std::int32_t> waiting_;   ///< by (head, q, rank): the lane that waits
  std::vector<Cursor> cursors_;         ///< by lane
  std::vector<std::int32_t> playable_;  ///< lanes that can be played on
  std::priority_queue<std::pair<Ticks, std::int32_t>, std::vector<std::pair<Ticks, std::int32_t>>,
                      std::greater<>>
      ends_;   ///< (when, which) SMs are free
  Lane next_;  ///< the next to launch
  std::int64_t done_ = 0;
  Simulation result_;
};

}  // namespace

Simulation simulate(const Table& table, const Timing& timing) {
  STAGGER_EXPECTS(std::ssize(table.slots) == table.problem.tasks());
  return Simulator(table, timing).run();
}

}  // namespace stagger::sim
