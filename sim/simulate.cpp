// The simulator runs ahead instead of stepping through time. A lane is played until it needs a turn
// that has not been released; it then waits at that lock and is taken up again by the release.
// Every time is the maximum of times that are final, so the order in which lanes are played does
// not matter, and no event queue is needed.
//
// Only dispatch depends on the order of events: the next lane goes to the SM that frees first. When
// no lane can be played on, every waiting lane waits, directly or not, for a lane not yet launched,
// and so frees its SM later than the first to be free of those known: that one is the next to come.

#include "sim/simulate.hpp"

#include "core/as_played.hpp"
#include "core/error.hpp"
#include "core/huge_pages.hpp"
#include "core/waiting.hpp"
#include "sim/lane_clock.hpp"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

namespace stagger::sim {
namespace {

/// The semaphore of one dQ tile, or of the dK and dV of one KV tile.
struct Lock {
  std::int32_t value = 0;    ///< the rank whose turn it is
  std::int32_t waiting = 0;  ///< lanes that wait for a higher one
  Ticks turn = 0;            ///< when that rank may start: its release plus the latency
};

/// How far an SM has come with its lane.
struct Cursor {
  Lane lane;
  std::int64_t slot = 0;  ///< the next to reduce
  bool computed = false;  ///< whether it has been handed over
  bool reduced = false;   ///< whether what is left of it is its chain's reduction into dK and dV
  LaneClock clock;
};

/// An SM whose lane can be played on; the least far is played first, so that those ahead of it find
/// more done when it is their turn.
struct Playable {
  Ticks ready = 0;
  Sm sm;
  friend bool operator<(const Playable& left, const Playable& right) {
    return left.ready > right.ready;
  }
};

class Simulator {
 public:
  Simulator(const Table& table, const Timing& timing)
      : table_(table),
        timing_(timing),
        rule_(table, timing),
        delayed_(timing.release == Release::delayed),
        q_tiles_(table.problem.q_tiles()),
        dq_tiles_(std::int64_t{table.problem.heads} * q_tiles_),
        locks_(dq_tiles_ + (rule_.combines() ? table.problem.heads_kv * kv_tiles_of(table) : 0)),
        resident_(resident_lanes(table.problem, timing.residency)),
        waiting_(std::min(table.lanes(), resident_)),
        cursors_(std::min(table.lanes(), resident_)) {
    reserve_filled(result_.reduce_start, table.slots.size());
    result_.reduce_start.assign(table.slots.size(), -1);
    if (rule_.combines()) result_.reduce_kv_start.assign(table.slots.size(), -1);
    result_.lanes.resize(table.lanes());
  }

  Simulation run() {
    for (Sm sm{0}; sm.value < resident_; ++sm)
      frees_.emplace(0, sm.value);
    while (next_.value < table_.lanes() && !frees_.empty()) {
      const auto [time, sm] = frees_.top();
      frees_.pop();
      launch(Sm{sm}, time);
      // Lanes that start at 0 may be played in any order; later ones need every end known.
      if (time == 0 && next_.value < resident_) continue;
      play_all();
    }
    play_all();
    result_.complete = ended_ == table_.lanes();
    return std::move(result_);
  }

 private:
  void launch(Sm sm, Ticks time) {
    LaneRun& lane = result_.lanes[next_];
    lane.sm = sm;
    lane.start = time;
    cursors_[sm] = {
        .lane = next_, .slot = table_.begin_of(next_), .clock = LaneClock{.free = time}};
    playable_.push({.ready = time, .sm = sm});
    ++next_;
  }

  void play_all() {
    while (!playable_.empty()) {
      const Sm sm = playable_.top().sm;
      playable_.pop();
      play(sm);
    }
  }

  /// Plays an SM's lane until it ends or waits for a turn. What it goes by are copies, which no
  /// store can change: they stay in registers.
  void play(Sm sm) {
    const LaneRule rule = rule_;
    Cursor cursor = cursors_[sm];
    const Slot* const slots = table_.slots.data();
    const std::int64_t end = table_.end_of(cursor.lane);
    bool first = cursor.slot < end && table_.begins_chain(cursor.lane, cursor.slot);
    for (; cursor.slot < end; ++cursor.slot) {
      const Slot& slot = slots[cursor.slot];
      const bool last =
          cursor.slot + 1 == end || !table_.problem.same_chain(slot.task, (&slot)[1].task);
      if (!cursor.reduced) {
        if (!cursor.computed) {
          rule.compute(slot.task, rule.launch(first, cursor.clock).end, 0, cursor.clock);
        }
        const std::int64_t place = place_of(slot.task);
        const Lock& lock = locks_[place];
        cursor.computed = lock.value != slot.rank;
        if (cursor.computed) {
          await(sm, place, slot.rank);
          break;
        }
        const Ticks start = std::max(cursor.clock.handed, lock.turn);
        result_.reduce_start[cursor.slot] = start;
        rule.reduce(start, last, cursor.clock);
        release(slot, place, first, last, start);
      }
      if (last && rule.combines()) {
        cursor = combined(sm, cursor);
        if (cursor.reduced) break;
      }
      first = last;
    }
    cursors_[sm] = cursor;
    if (cursor.clock.has_reduced()) {
      result_.makespan = std::max(result_.makespan, cursor.clock.end());
    }
    result_.last_reduction = std::max(result_.last_reduction, cursor.clock.writer_free);
    if (cursor.slot == end) end_lane(cursor.lane, cursor.clock);
  }

  /// Reduces the chain that ends at hand into dK and dV; if it waits for that, `reduced` is true.
  Cursor combined(Sm sm, Cursor cursor) {
    const Task& task = table_.slots[cursor.slot].task;
    const std::int64_t place = dq_tiles_ + table_.problem.dkv_place(task);
    const std::int32_t rank = table_.dkv_rank(task);
    cursor.reduced = locks_[place].value != rank;
    if (cursor.reduced) {
      await(sm, place, rank);
      return cursor;
    }
    const Ticks start = std::max(cursor.clock.writer_free, locks_[place].turn);
    result_.reduce_kv_start[cursor.slot] = start;
    const Ticks freed = cursor.clock.free;
    rule_.combine(start, {.start = freed, .end = freed}, cursor.clock);
    release(place, start + timing_.reduce_kv);
    return cursor;
  }

  void await(Sm sm, std::int64_t place, std::int32_t rank) {
    if (rank < locks_[place].value) return;
    ++locks_[place].waiting;
    waiting_.add(sm, place, rank);
  }

  void end_lane(Lane lane, const LaneClock& clock) {
    result_.lanes[lane].end = clock.end();
    frees_.emplace(rule_.next_lane(clock), result_.lanes[lane].sm.value);
    ++ended_;
  }

  /// Releases what a reduction's start at `start` lets go.
  void release(const Slot& slot, std::int64_t place, bool first, bool last, Ticks start) {
    // The chain's previous task lets go when this one is under way.
    if (delayed_ && !first) release(place_of((&slot - 1)->task), start + timing_.reduce / 2);
    if (!delayed_ || last) release(place, start + timing_.reduce);
  }

  void release(std::int64_t place, Ticks time) {
    Lock& lock = locks_[place];
    ++lock.value;
    lock.turn = time + timing_.latency;
    if (lock.waiting > 0) wake(place, lock);
  }

  void wake(std::int64_t place, Lock& lock) {
    const Sm sm = waiting_.take(place, lock.value);
    if (sm == waiting_.kNobody) return;
    --lock.waiting;
    playable_.push({.ready = cursors_[sm].clock.handed, .sm = sm});
  }

  [[nodiscard]] std::int64_t place_of(const Task& task) const {
    return std::int64_t{task.head.value} * q_tiles_ + task.q.value;
  }
  [[nodiscard]] static std::int64_t kv_tiles_of(const Table& table) {
    return table.problem.kv_tiles();
  }

  const Table& table_;
  const Timing& timing_;
  LaneRule rule_;
  bool delayed_;
  std::int32_t q_tiles_;
  std::int64_t dq_tiles_;                  ///< of all heads
  IndexVector<std::int64_t, Lock> locks_;  ///< by (head, q), then those of dK and dV
  std::int32_t resident_;                  ///< SMs that are there
  Waiting<Sm> waiting_;
  IndexVector<Sm, Cursor> cursors_;
  std::priority_queue<Playable> playable_;
  std::priority_queue<std::pair<Ticks, std::int32_t>, std::vector<std::pair<Ticks, std::int32_t>>,
                      std::greater<>>
      frees_;  ///< (when, which) SMs can launch a lane
  Lane next_;  ///< the next to launch
  std::int32_t ended_ = 0;
  Simulation result_;
};

}  // namespace

Simulation simulate(const Table& table, const Timing& timing) {
  const AsPlayed played(table, timing);
  return Simulator(played.table(), played.timing()).run();
}

}  // namespace stagger::sim
