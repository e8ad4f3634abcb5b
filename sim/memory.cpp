// The simulator runs ahead of time, which no cache can: what is in it is what came before. So a
// table with a memory is stepped through, by a queue that has two steps of an SM at most: one of
// its lane and one of its writer.

#include "sim/memory.hpp"

#include "core/error.hpp"
#include "core/waiting.hpp"
#include "sim/lane_clock.hpp"
#include "sim/tile_memory.hpp"

#include <algorithm>
#include <compare>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

namespace stagger::sim {
namespace {

/// In the order in which those of one SM are taken at one time.
enum class StepKind : std::int8_t { take, launch, compute, reduce, combine };

struct Step {
  Ticks time = 0;
  Sm sm;
  StepKind kind = StepKind::take;

  friend auto operator<=>(const Step&, const Step&) = default;
};

/// A semaphore, as the simulator's.
struct TurnLock {
  std::int32_t value = 0;  ///< the rank whose turn it is
  Ticks turn = 0;          ///< when that rank may start
};

constexpr std::int64_t kNoSlot = -1;

/// How far an SM has come with its lane, and its writer.
struct Station {
  Lane lane;
  std::int64_t next = 0;            ///< slot: the next to compute
  std::int64_t computed = kNoSlot;  ///< slot: computed, but the writer has another one
  std::int64_t writing = kNoSlot;   ///< slot: handed over, and not all of it is under way
  Ticks computes = 0;               ///< end of the last compute phase
  Ticks loaded = 0;                 ///< when the next compute phase's tiles are there
  bool ended = true;                ///< there is no lane
  LaneClock clock;
};

class MemoryPlayer {
 public:
  /// Keeps when phases start in `record`, if there is one.
  MemoryPlayer(const Table& table, const Timing& timing, Simulation* record)
      : table_(table),
        timing_(timing),
        record_(record),
        rule_(table, timing),
        memory_(*timing.memory, table.problem, play_),
        dq_tiles_(std::int64_t{table.problem.heads} * table.problem.grid.q_tiles()),
        locks_(dq_tiles_ + (rule_.combines() ? table.problem.heads_kv * kv_tiles() : 0)),
        stations_(std::min(table.lanes(), resident_lanes(table.problem, timing.residency))),
        waiting_(static_cast<std::int32_t>(stations_.size())) {}

  MemoryPlay run() {
    for (Sm sm{0}; sm.value < std::ssize(stations_); ++sm)
      take_lane(sm, 0);
    while (!steps_.empty()) {
      const Step step = steps_.top();
      steps_.pop();
      play(step);
    }
    play_.makespan = std::max(play_.makespan, memory_.idle());
    return play_;
  }

 private:
  void play(const Step& step) {
    switch (step.kind) {
      case StepKind::take:
        return take_lane(step.sm, step.time);
      case StepKind::launch:
        return launch(step.sm, step.time);
      case StepKind::compute:
        return compute(step.sm, step.time);
      case StepKind::reduce:
        return reduce(step.sm, step.time);
      case StepKind::combine:
        return combine(step.sm, step.time);
    }
  }

  void take_lane(Sm sm, Ticks time) {
    if (next_.value == table_.lanes()) return;
    if (record_) record_->lanes[next_] = {.sm = sm, .start = time};
    stations_[sm] = {.lane = next_,
                     .next = table_.begin_of(next_),
                     .ended = false,
                     .clock = LaneClock{.free = time}};
    ++next_;
    go_on(sm);
  }

  /// The SM turns to its lane's next slot once it is free. What is still with the writer ends the
  /// lane itself.
  void go_on(Sm sm) {
    Station& station = stations_[sm];
    if (station.next == table_.end_of(station.lane)) return end_lane(sm);
    const Ticks free = station.clock.free;
    if (table_.begins_chain(station.lane, station.next)) {
      steps_.push({.time = free, .sm = sm, .kind = StepKind::launch});
    } else {
      steps_.push({.time = std::max(free, station.loaded), .sm = sm, .kind = StepKind::compute});
    }
  }

  void end_lane(Sm sm) {
    Station& station = stations_[sm];
    const bool busy = station.computed != kNoSlot || station.writing != kNoSlot;
    if (station.ended || busy || station.next < table_.end_of(station.lane)) return;
    station.ended = true;
    if (record_) record_->lanes[station.lane].end = station.clock.end();
    play_.makespan = std::max(play_.makespan, station.clock.end());
    steps_.push({.time = station.clock.end(), .sm = sm, .kind = StepKind::take});
  }

  void launch(Sm sm, Ticks time) {
    Station& station = stations_[sm];
    const Task& task = table_.slots[station.next].task;
    const Ticks launched = rule_.launch(true, {.free = time}).end;
    const Ticks there = memory_.load(time, memory_.tiles.kv(task));
    station.loaded = std::max(there, memory_.load(time, memory_.tiles.q(task)));
    steps_.push({.time = std::max(launched, station.loaded), .sm = sm, .kind = StepKind::compute});
  }

  void compute(Sm sm, Ticks time) {
    Station& station = stations_[sm];
    const std::int64_t slot = station.next++;
    station.computed = slot;
    if (record_) record_->compute_start[slot] = time;
    LaneClock clock = station.clock;
    station.computes = rule_.compute(table_.slots[slot].task, time, clock).end;
    if (!table_.ends_chain(station.lane, slot)) {
      station.loaded = memory_.load(time, memory_.tiles.q(table_.slots[slot + 1].task));
    }
    if (station.writing == kNoSlot) hand_over(sm);
  }

  /// The writer, whose last reduction is under way or done, takes what was computed.
  void hand_over(Sm sm) {
    Station& station = stations_[sm];
    const std::int64_t slot = std::exchange(station.computed, kNoSlot);
    station.writing = slot;
    station.clock.handed = std::max(station.computes, station.clock.writer_free);
    const auto& [task, rank] = table_.slots[slot];
    ask_turn(sm, memory_.tiles.dq(task), rank, station.clock.handed, StepKind::reduce);
    const bool ends_chain = table_.ends_chain(station.lane, slot);
    if (!rule_.frees_at_hand_over(ends_chain)) return;
    rule_.free(station.clock.handed, ends_chain, station.clock);
    go_on(sm);
  }

  void reduce(Sm sm, Ticks time) {
    Station& station = stations_[sm];
    const std::int64_t slot = station.writing;
    const auto& [task, rank] = table_.slots[slot];
    const bool ends_chain = table_.ends_chain(station.lane, slot);
    const Ticks start = touch_dq(task, rank, time);
    if (record_) record_->reduce_start[slot] = start;
    release_after(sm, slot, start);
    LaneClock writer = station.clock;
    rule_.reduce(start, ends_chain, writer);
    station.clock.writer_free = writer.writer_free;
    play_.last_reduction = std::max(play_.last_reduction, writer.writer_free);
    const bool goes_on = !rule_.frees_at_hand_over(ends_chain);
    if (goes_on) station.clock.free = writer.free;
    const bool combines = ends_chain && rule_.combines();
    if (combines) {
      ask_turn(sm, dkv_lock(task), table_.dkv_rank(task), writer.writer_free, StepKind::combine);
    } else {
      if (ends_chain) memory_.store(time, memory_.tiles.gradient(task));
      station.writing = kNoSlot;
    }
    if (goes_on && !(combines && rule_.waits_to_combine())) go_on(sm);
    if (!combines) free_writer(sm);
  }

  void combine(Sm sm, Ticks time) {
    Station& station = stations_[sm];
    const Task& task = table_.slots[station.writing].task;
    const std::int64_t tile = memory_.tiles.gradient(task);
    Ticks start = time;
    if (table_.dkv_rank(task) == 0) {
      memory_.store(time, tile);
    } else {
      start = memory_.add(time, tile);
    }
    if (record_) record_->reduce_kv_start[station.writing] = start;
    release(dkv_lock(task), start + timing_.reduce_kv);
    rule_.combine(start, {}, station.clock);
    play_.last_reduction = std::max(play_.last_reduction, station.clock.writer_free);
    station.writing = kNoSlot;
    if (rule_.waits_to_combine()) go_on(sm);
    free_writer(sm);
  }

  /// The writer can take what was computed meanwhile.
  void free_writer(Sm sm) {
    if (stations_[sm].computed != kNoSlot) {
      hand_over(sm);
    } else {
      end_lane(sm);
    }
  }

  /// When a reduction starts whose turn it is at `time`: once its dQ tile is there.
  Ticks touch_dq(const Task& task, std::int32_t rank, Ticks time) {
    const std::int64_t tile = memory_.tiles.dq(task);
    if (rank == 0) in_flight_ += memory_.tiles.bytes(tile);
    play_.in_flight = std::max(play_.in_flight, in_flight_);
    if (rank + 1 == table_.problem.grid.contributions(task.q)) {
      in_flight_ -= memory_.tiles.bytes(tile);
    }
    if (rank > 0) return memory_.add(time, tile);
    memory_.store(time, tile);
    return time;
  }

  /// Takes the step once it is the rank's turn, `ready` at the earliest.
  void ask_turn(Sm sm, std::int64_t lock, std::int32_t rank, Ticks ready, StepKind kind) {
    if (locks_[lock].value != rank) return waiting_.add(sm, lock, rank);
    steps_.push({.time = std::max(ready, locks_[lock].turn), .sm = sm, .kind = kind});
  }

  /// Releases what a reduction's start at `start` lets go.
  void release_after(Sm sm, std::int64_t slot, Ticks start) {
    const Lane lane = stations_[sm].lane;
    const bool delayed = timing_.release == Release::delayed;
    if (delayed && !table_.begins_chain(lane, slot)) {
      release(memory_.tiles.dq(table_.slots[slot - 1].task), start + timing_.reduce / 2);
    }
    if (delayed && !table_.ends_chain(lane, slot)) return;
    release(memory_.tiles.dq(table_.slots[slot].task), start + timing_.reduce);
  }

  void release(std::int64_t place, Ticks time) {
    TurnLock& lock = locks_[place];
    ++lock.value;
    lock.turn = time + timing_.latency;
    const Sm sm = waiting_.take(place, lock.value);
    if (sm == waiting_.kNobody) return;
    const LaneClock& clock = stations_[sm].clock;
    const bool reduces = place < dq_tiles_;
    steps_.push({.time = std::max(reduces ? clock.handed : clock.writer_free, lock.turn),
                 .sm = sm,
                 .kind = reduces ? StepKind::reduce : StepKind::combine});
  }

  [[nodiscard]] std::int64_t dkv_lock(const Task& task) const {
    return dq_tiles_ + table_.problem.dkv_place(task);
  }
  [[nodiscard]] std::int64_t kv_tiles() const { return table_.problem.grid.kv_tiles(); }

  const Table& table_;
  const Timing& timing_;
  Simulation* record_;  ///< of when phases start; null: nobody asks
  LaneRule rule_;
  MemoryPlay play_;
  TileMemory memory_;
  std::int64_t dq_tiles_;                      ///< of all heads
  IndexVector<std::int64_t, TurnLock> locks_;  ///< by (head, q), then those of dK and dV
  IndexVector<Sm, Station> stations_;
  Waiting<Sm> waiting_;  ///< writers for turns
  std::priority_queue<Step, std::vector<Step>, std::greater<>> steps_;
  Lane next_;                   ///< the next to be taken
  std::int64_t in_flight_ = 0;  ///< bytes of dQ tiles begun and not finished
};

}  // namespace

MemoryPlay play_memory(const Table& table, const Timing& timing) {
  STAGGER_EXPECTS(timing.memory.has_value() && timing.memory->l2 > 0 && timing.memory->rate > 0);
  return MemoryPlayer(table, timing, nullptr).run();
}

Simulation simulate_with_memory(const Table& table, const Timing& timing) {
  STAGGER_EXPECTS(timing.memory.has_value() && timing.memory->l2 > 0 && timing.memory->rate > 0);
  Simulation simulation;
  simulation.reduce_start.assign(table.slots.size(), -1);
  simulation.compute_start.assign(table.slots.size(), -1);
  if (table.problem.combine == Combine::ordered) {
    simulation.reduce_kv_start.assign(table.slots.size(), -1);
  }
  simulation.lanes.resize(table.lanes());
  const MemoryPlay play = MemoryPlayer(table, timing, &simulation).run();
  simulation.complete = true;
  simulation.makespan = play.makespan;
  simulation.last_reduction = play.last_reduction;
  return simulation;
}

}  // namespace stagger::sim
