// The simulator runs ahead of time, which no cache can: what is in it is what came before. So a
// table with a memory is stepped through. An SM has two steps to come at most, one of its lane and
// one of its writer; whose is next a tournament says (sim/tournament.hpp).

#include "sim/memory.hpp"

#include "core/error.hpp"
#include "core/waiting.hpp"
#include "sim/lane_clock.hpp"
#include "sim/tile_memory.hpp"
#include "sim/tournament.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace stagger::sim {
namespace {

/// In the order in which those of one SM are taken at one time.
enum class StepKind : std::int8_t { take, launch, compute, reduce, combine };

struct Step {
  Ticks time = Tournament::kNever;
  StepKind kind = StepKind::take;
};

/// A semaphore, as the simulator's.
struct TurnLock {
  std::int32_t value = 0;    ///< the rank whose turn it is
  std::int32_t waiting = 0;  ///< writers that wait for a higher one
  Ticks turn = 0;            ///< when that rank may start
};

constexpr std::int64_t kNoSlot = -1;

/// How far an SM has come with its lane, and its writer.
struct Station {
  Lane lane;
  bool ended = true;                ///< there is no lane
  std::int64_t next = 0;            ///< slot: the next to compute
  std::int64_t end = 0;             ///< slot: behind the lane's last
  std::int64_t computed = kNoSlot;  ///< slot: computed, but the writer has another one
  std::int64_t writing = kNoSlot;   ///< slot: handed over, and not all of it is under way
  Ticks computes = 0;               ///< end of the last compute phase
  Ticks loaded = 0;                 ///< when the next compute phase's tiles are there
  LaneClock clock;
  Step of_lane = {};    ///< what comes next
  Step of_writer = {};  ///< what comes next

  /// When the earlier one of the two comes.
  [[nodiscard]] Ticks due() const { return std::min(of_lane.time, of_writer.time); }
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
        waiting_(static_cast<std::int32_t>(stations_.size())),
        due_(static_cast<std::int32_t>(stations_.size())) {}

  MemoryPlay run() {
    for (Sm sm{0}; sm.value < std::ssize(stations_); ++sm) {
      take_lane(stations_[sm], sm, 0);
      due_.hasten(sm, stations_[sm].due());
    }
    while (due_.time() < Tournament::kNever)
      play(due_.first());
    play_.makespan = std::max(play_.makespan, memory_.idle());
    return play_;
  }

 private:
  /// Takes the next step of the first SM: at one time its lane's before its writer's.
  void play(Sm sm) {
    Station& station = stations_[sm];
    due_.drop_first();
    const bool of_lane = station.of_lane.time <= station.of_writer.time;
    const Step step = std::exchange(of_lane ? station.of_lane : station.of_writer, {});
    switch (step.kind) {
      case StepKind::take:
        take_lane(station, sm, step.time);
        break;
      case StepKind::launch:
        launch(station, step.time);
        break;
      case StepKind::compute:
        compute(station, step.time);
        break;
      case StepKind::reduce:
        reduce(station, step.time);
        break;
      case StepKind::combine:
        combine(station, step.time);
        break;
    }
    due_.hasten(sm, station.due());
  }

  void take_lane(Station& station, Sm sm, Ticks time) {
    if (next_.value == table_.lanes()) return;
    if (record_) record_->lanes[next_] = {.sm = sm, .start = time};
    station = {.lane = next_,
               .ended = false,
               .next = table_.begin_of(next_),
               .end = table_.end_of(next_),
               .clock = LaneClock{.free = time}};
    ++next_;
    go_on(station, true);
  }

  /// The SM turns to its lane's next slot once it is free. What is still with the writer ends the
  /// lane itself.
  void go_on(Station& station, bool begins_chain) {
    if (station.next == station.end) return end_lane(station);
    const Ticks free = station.clock.free;
    if (begins_chain) {
      station.of_lane = {.time = free, .kind = StepKind::launch};
    } else {
      station.of_lane = {.time = std::max(free, station.loaded), .kind = StepKind::compute};
    }
  }

  void end_lane(Station& station) {
    const bool busy = station.computed != kNoSlot || station.writing != kNoSlot;
    if (station.ended || busy || station.next < station.end) return;
    station.ended = true;
    if (record_) record_->lanes[station.lane].end = station.clock.end();
    play_.makespan = std::max(play_.makespan, station.clock.end());
    station.of_lane = {.time = station.clock.end(), .kind = StepKind::take};
  }

  void launch(Station& station, Ticks time) {
    const Task& task = table_.slots[station.next].task;
    const Ticks launched = rule_.launch(true, {.free = time}).end;
    const Ticks there = memory_.load(time, memory_.tiles.kv(task));
    station.loaded = std::max(there, memory_.load(time, memory_.tiles.q(task)));
    station.of_lane = {.time = std::max(launched, station.loaded), .kind = StepKind::compute};
  }

  void compute(Station& station, Ticks time) {
    const std::int64_t slot = station.next++;
    station.computed = slot;
    if (record_) record_->compute_start[slot] = time;
    LaneClock clock = station.clock;
    station.computes = rule_.compute(table_.slots[slot].task, time, clock).end;
    if (!ends_chain(station, slot)) {
      station.loaded = memory_.load(time, memory_.tiles.q(table_.slots[slot + 1].task));
    }
    if (station.writing == kNoSlot) hand_over(station);
  }

  /// The writer, whose last reduction is under way or done, takes what was computed.
  void hand_over(Station& station) {
    const std::int64_t slot = std::exchange(station.computed, kNoSlot);
    station.writing = slot;
    station.clock.handed = std::max(station.computes, station.clock.writer_free);
    const auto& [task, rank] = table_.slots[slot];
    ask_turn(station, memory_.tiles.dq(task), rank, station.clock.handed, StepKind::reduce);
    const bool ends = ends_chain(station, slot);
    if (!rule_.frees_at_hand_over(ends)) return;
    rule_.free(station.clock.handed, ends, station.clock);
    go_on(station, ends);
  }

  void reduce(Station& station, Ticks time) {
    const std::int64_t slot = station.writing;
    const auto& [task, rank] = table_.slots[slot];
    const bool ends = ends_chain(station, slot);
    const Ticks start = touch_dq(task, rank, time);
    if (record_) record_->reduce_start[slot] = start;
    release_after(station, slot, start);
    LaneClock writer = station.clock;
    rule_.reduce(start, ends, writer);
    station.clock.writer_free = writer.writer_free;
    play_.last_reduction = std::max(play_.last_reduction, writer.writer_free);
    const bool goes_on = !rule_.frees_at_hand_over(ends);
    if (goes_on) station.clock.free = writer.free;
    const bool combines = ends && rule_.combines();
    if (combines) {
      ask_turn(station, dkv_lock(task), table_.dkv_rank(task), writer.writer_free,
               StepKind::combine);
    } else {
      if (ends) memory_.store(time, memory_.tiles.gradient(task));
      station.writing = kNoSlot;
    }
    if (goes_on && !(combines && rule_.waits_to_combine())) go_on(station, ends);
    if (!combines) free_writer(station);
  }

  void combine(Station& station, Ticks time) {
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
    if (rule_.waits_to_combine()) go_on(station, true);
    free_writer(station);
  }

  /// The writer can take what was computed meanwhile.
  void free_writer(Station& station) {
    if (station.computed != kNoSlot) {
      hand_over(station);
    } else {
      end_lane(station);
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
  void ask_turn(Station& station, std::int64_t place, std::int32_t rank, Ticks ready,
                StepKind kind) {
    TurnLock& lock = locks_[place];
    if (lock.value != rank) {
      ++lock.waiting;
      return waiting_.add(sm_of(station), place, rank);
    }
    station.of_writer = {.time = std::max(ready, lock.turn), .kind = kind};
  }

  /// Releases what a reduction's start at `start` lets go.
  void release_after(const Station& station, std::int64_t slot, Ticks start) {
    const bool delayed = timing_.release == Release::delayed;
    if (delayed && !table_.begins_chain(station.lane, slot)) {
      release(memory_.tiles.dq(table_.slots[slot - 1].task), start + timing_.reduce / 2);
    }
    if (delayed && !ends_chain(station, slot)) return;
    release(memory_.tiles.dq(table_.slots[slot].task), start + timing_.reduce);
  }

  void release(std::int64_t place, Ticks time) {
    TurnLock& lock = locks_[place];
    ++lock.value;
    lock.turn = time + timing_.latency;
    if (lock.waiting > 0) wake(place, lock);
  }

  void wake(std::int64_t place, TurnLock& lock) {
    const Sm sm = waiting_.take(place, lock.value);
    if (sm == waiting_.kNobody) return;
    --lock.waiting;
    Station& station = stations_[sm];
    const bool reduces = place < dq_tiles_;
    const Ticks ready = reduces ? station.clock.handed : station.clock.writer_free;
    station.of_writer = {.time = std::max(ready, lock.turn),
                         .kind = reduces ? StepKind::reduce : StepKind::combine};
    due_.hasten(sm, station.due());
  }

  [[nodiscard]] bool ends_chain(const Station& station, std::int64_t slot) const {
    const Slot* const at = table_.slots.data() + slot;
    return slot + 1 == station.end || !table_.problem.same_chain(at[0].task, at[1].task);
  }
  [[nodiscard]] Sm sm_of(const Station& station) const {
    return {static_cast<std::int32_t>(&station - stations_.data())};
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
  Waiting<Sm> waiting_;         ///< writers for turns
  Tournament due_;              ///< SMs whose step is next
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
