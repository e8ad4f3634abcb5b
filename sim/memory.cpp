// The simulator runs ahead of time, which no cache can: what is in it is what came before. So a
// table with a memory is stepped through. An SM has two steps to come at most, one of its lane and
// one of its writer; whose is next a calendar says (sim/calendar.hpp).

#include "sim/memory.hpp"

#include "core/as_played.hpp"
#include "core/error.hpp"
#include "core/waiting.hpp"
#include "sim/calendar.hpp"
#include "sim/lane_clock.hpp"
#include "sim/load.hpp"
#include "sim/spread.hpp"
#include "sim/tile_memory.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace stagger::sim {
namespace {

/// What an SM does at a time: the first three its lane, the others its writer.
enum class Step : std::int8_t { take, launch, compute, reduce, combine };

/// A semaphore. Most often one writer waits at a time: it is noted here, others are in a table.
struct TurnLock {
  static constexpr std::int32_t kNoRank = -1;

  std::int32_t value = 0;             ///< the rank whose turn it is
  std::int32_t waiting = 0;           ///< writers that wait for a higher one
  Ticks turn = 0;                     ///< when that rank may start
  std::int32_t first_rank = kNoRank;  ///< that the one noted here waits for
  Sm first;                           ///< who that is
};

/// Slots: how far ahead of a lane its table is asked for. Lanes are more streams than a processor
/// finds by itself.
constexpr std::int64_t kAhead = 8;

/// A slot on its way to the writer, and through it. Tables have at most 2^26 slots.
struct Work {
  static constexpr std::int32_t kNone = -1;

  std::int32_t slot = kNone;
  std::int32_t dq = 0;  ///< its tile
  std::int32_t rank = 0;
  bool ends_chain = false;
  bool ends_dq = false;  ///< its rank is the last

  [[nodiscard]] bool none() const { return slot == kNone; }
};

/// How far an SM has come with its lane, and its writer.
struct Station {
  std::int32_t actor = 0;  ///< the lane is; the writer is the next one
  Lane lane;
  std::int32_t next = 0;  ///< slot: the next to compute
  std::int32_t end = 0;   ///< slot: behind the lane's last
  Work computed;          ///< computed, but the writer has another one
  Work writing;           ///< handed over, and not all of it is under way
  Ticks computes = 0;     ///< end of the last compute phase
  Ticks loaded = 0;       ///< when the next compute phase's tiles are there
  LaneClock clock;
  bool ended = true;              ///< there is no lane
  bool has_gradients = false;     ///< dK and dV of its last chain are still to be written
  Step of_lane = Step::take;      ///< what comes next, if something is to
  Step of_writer = Step::reduce;  ///< what comes next, if something is to
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
        load_(timing, table.problem),
        spread_(timing.memory->spread, timing.memory->draw),
        dq_tiles_(std::int64_t{table.problem.heads} * table.problem.q_tiles()),
        locks_(dq_tiles_ + (rule_.combines() ? table.problem.heads_kv * kv_tiles() : 0)),
        stations_(at(std::min(table.lanes(), resident_lanes(table.problem, timing.residency)))),
        waiting_(static_cast<std::int32_t>(stations_.size())),
        due_(2 * static_cast<std::int32_t>(stations_.size()), longest_phase(timing)) {}

  MemoryPlay run() {
    for (Sm sm{0}; sm.value < std::ssize(stations_); ++sm) {
      stations_[at(sm)].actor = 2 * sm.value;
      take_lane(stations_[at(sm)], 0);
    }
    for (std::int32_t actor = due_.take(); actor != Calendar::kNobody; actor = due_.take())
      play(actor, due_.now());
    play_.makespan = std::max(play_.makespan, memory_.idle());
    const TileBytes& tile = timing_.memory->tile;
    play_.touched = std::ssize(table_.slots) * (tile.q + tile.dq);
    play_.touched += chains_ * (tile.kv + tile.gradient);
    play_.hit = play_.touched - memory_.missed();
    return play_;
  }

 private:
  /// Takes the next step of an SM's lane or, if the actor is odd, of its writer.
  void play(std::int32_t actor, Ticks time) {
    Station& station = stations_[at(actor >> 1)];
    if ((actor & 1) != 0) {
      return station.of_writer == Step::reduce ? reduce(station, time) : combine(station, time);
    }
    if (station.of_lane == Step::compute) return compute(station, time);
    return station.of_lane == Step::launch ? launch(station, time) : take_lane(station, time);
  }

  /// The next step of an SM's lane.
  void lane_takes(Station& station, Step step, Ticks time) {
    station.of_lane = step;
    due_.add(station.actor, time);
  }
  /// The next step of an SM's writer.
  void writer_takes(Station& station, Step step, Ticks time) {
    station.of_writer = step;
    due_.add(station.actor + 1, time);
  }

  void take_lane(Station& station, Ticks time) {
    if (next_.value == table_.lanes()) {
      if (station.has_gradients) write_gradients(station, time);
      return;
    }
    const Ticks ready = rule_.next_lane(station.clock);
    if (ready > time) {
      const Ticks kept = station.has_gradients ? write_gradients(station, time) : 0;
      return lane_takes(station, Step::take, std::max(ready, time + kept));
    }
    if (record_) record_->lanes[next_] = {.sm = sm_of(station), .start = time};
    station = {.actor = station.actor,
               .lane = next_,
               .next = static_cast<std::int32_t>(table_.begin_of(next_)),
               .end = static_cast<std::int32_t>(table_.end_of(next_)),
               .computed = {},
               .writing = {},
               .clock = LaneClock{.free = time},
               .ended = false,
               .has_gradients = station.has_gradients};
    ++next_;
    go_on(station, true);
  }

  /// The SM turns to its lane's next slot once it is free. What is still with the writer ends the
  /// lane itself.
  void go_on(Station& station, bool begins_chain) {
    if (station.next == station.end) return end_lane(station);
    const Ticks free = station.clock.free;
    if (begins_chain) {
      lane_takes(station, Step::launch, free);
    } else {
      lane_takes(station, Step::compute, std::max(free, station.loaded));
    }
  }

  void end_lane(Station& station) {
    if (station.next < station.end || station.ended) return;
    if (!station.computed.none() || !station.writing.none()) return;
    station.ended = true;
    play_.last_reduction = std::max(play_.last_reduction, station.clock.writer_free);
    if (record_) record_->lanes[station.lane].end = station.clock.end();
    if (station.clock.has_reduced()) {
      play_.makespan = std::max(play_.makespan, station.clock.end());
    }
    lane_takes(station, Step::take, station.clock.end());
  }

  /// Writes dK and dV of the SM's last chain. Returns how long it is kept from its next one: what
  /// an idle memory takes is in the epilogue.
  Ticks write_gradients(Station& station, Ticks time) {
    station.has_gradients = false;
    return memory_.stream(time, timing_.memory->tile.gradient);
  }

  void launch(Station& station, Ticks time) {
    if (station.has_gradients) {
      const Ticks kept = write_gradients(station, time);
      if (kept > 0) return lane_takes(station, Step::launch, time + kept);
    }
    station.has_gradients = !rule_.combines();
    ++chains_;
    const Task& task = table_.slots[station.next].task;
    const Ticks launched = rule_.launch(true, {.free = time}).end;
    const Ticks there = memory_.load(time, memory_.tiles.kv(task));
    station.loaded = std::max(there, memory_.load(time, memory_.tiles.q(task)));
    lane_takes(station, Step::compute, std::max(launched, station.loaded));
  }

  void compute(Station& station, Ticks time) {
    const std::int32_t slot = station.next++;
    const Slot* const at = table_.slots.data() + slot;
    __builtin_prefetch(at + kAhead);
    const bool ends =
        station.next == station.end || !table_.problem.same_chain(at[0].task, at[1].task);
    if (record_) record_->compute_start[slot] = time;
    const Ticks longer = load_.dips(time) ? load_.slowed_by(rule_.compute_of(at->task)) : 0;
    if (record_ && !record_->compute_longer.empty()) record_->compute_longer[slot] = longer;
    LaneClock clock = station.clock;
    station.computes = rule_.compute(at->task, time, longer, clock).end;
    if (!ends) station.loaded = memory_.load(time, memory_.tiles.q(at[1].task));
    const Work work{.slot = slot,
                    .dq = static_cast<std::int32_t>(memory_.tiles.dq(at->task)),
                    .rank = at->rank,
                    .ends_chain = ends,
                    .ends_dq = at->rank + 1 == table_.problem.contributions(at->task)};
    if (station.writing.none()) {
      hand_over(station, work);
    } else {
      station.computed = work;
    }
  }

  /// The writer, whose last reduction is under way or done, takes what was computed.
  void hand_over(Station& station, const Work& work) {
    station.writing = work;
    const Ticks handed = std::max(station.computes, station.clock.writer_free);
    station.clock.handed = handed;
    ask_turn(station, work.dq, work.rank, handed, Step::reduce);
    if (!rule_.frees_at_hand_over(work.ends_chain)) return;
    rule_.free(handed, work.ends_chain, station.clock);
    go_on(station, work.ends_chain);
  }

  /// In line, as half of all steps are its.
  [[gnu::always_inline]] inline void reduce(Station& station, Ticks time) {
    const Work work = station.writing;
    const bool ends = work.ends_chain;
    load_.add(time);
    const Ticks start = touch_dq(work, time);
    if (record_) record_->reduce_start[work.slot] = start;
    release_after(station, work, start);
    LaneClock writer = station.clock;
    rule_.reduce(start, ends, writer);
    station.clock.writer_free = writer.writer_free;
    const bool goes_on = !rule_.frees_at_hand_over(ends);
    if (goes_on) station.clock.free = writer.free;
    const bool combines = ends && rule_.combines();
    if (combines) {
      const Task& task = table_.slots[work.slot].task;
      ask_turn(station, dkv_lock(task), table_.dkv_rank(task), writer.writer_free, Step::combine);
    } else {
      station.writing.slot = Work::kNone;
    }
    if (goes_on && !(combines && rule_.waits_to_combine())) go_on(station, ends);
    if (!combines) free_writer(station);
  }

  void combine(Station& station, Ticks time) {
    const Task& task = table_.slots[station.writing.slot].task;
    const std::int64_t tile = memory_.tiles.gradient(task);
    Ticks start = time;
    if (table_.dkv_rank(task) == 0) {
      memory_.store(time, tile);
    } else {
      start = memory_.add(time, tile);
    }
    if (record_) record_->reduce_kv_start[station.writing.slot] = start;
    release(dkv_lock(task), start + timing_.reduce_kv);
    rule_.combine(start, {}, station.clock);
    station.writing.slot = Work::kNone;
    if (rule_.waits_to_combine()) go_on(station, true);
    free_writer(station);
  }

  /// The writer can take what was computed meanwhile.
  void free_writer(Station& station) {
    if (!station.computed.none()) {
      hand_over(station, std::exchange(station.computed, {}));
    } else {
      end_lane(station);
    }
  }

  /// When a reduction starts whose turn it is at `time`: once its dQ tile is there.
  Ticks touch_dq(const Work& work, Ticks time) {
    const std::int64_t bytes = timing_.memory->tile.dq;
    if (work.rank == 0) {
      in_flight_ += bytes;
      play_.in_flight = std::max(play_.in_flight, in_flight_);
    }
    if (work.ends_dq) in_flight_ -= bytes;
    if (work.rank > 0) return memory_.add(time, work.dq);
    memory_.store(time, work.dq);
    return time;
  }

  /// Takes the step once it is the rank's turn, `ready` at the earliest.
  void ask_turn(Station& station, std::int64_t place, std::int32_t rank, Ticks ready, Step step) {
    TurnLock& lock = locks_[place];
    if (lock.value == rank) return writer_takes(station, step, std::max(ready, lock.turn));
    ++lock.waiting;
    if (lock.first_rank != TurnLock::kNoRank) return waiting_.add(sm_of(station), place, rank);
    lock.first_rank = rank;
    lock.first = sm_of(station);
  }

  /// Releases what a reduction's start at `start` lets go.
  void release_after(const Station& station, const Work& work, Ticks start) {
    const bool delayed = timing_.release == Release::delayed;
    if (delayed && !table_.begins_chain(station.lane, work.slot)) {
      release(memory_.tiles.dq(table_.slots[work.slot - 1].task), start + timing_.reduce / 2);
    }
    if (delayed && !work.ends_chain) return;
    release(work.dq, start + timing_.reduce);
  }

  void release(std::int64_t place, Ticks time) {
    TurnLock& lock = locks_[place];
    ++lock.value;
    lock.turn = time + timing_.latency + load_.held_up() + spread_.delay(place, lock.value);
    if (lock.waiting > 0) wake(place, lock);
  }

  void wake(std::int64_t place, TurnLock& lock) {
    const bool is_first = lock.first_rank == lock.value;
    const Sm sm = is_first ? lock.first : waiting_.take(place, lock.value);
    if (sm == waiting_.kNobody) return;
    if (is_first) lock.first_rank = TurnLock::kNoRank;
    --lock.waiting;
    Station& station = stations_[at(sm)];
    const bool reduces = place < dq_tiles_;
    const Ticks ready = reduces ? station.clock.handed : station.clock.writer_free;
    writer_takes(station, reduces ? Step::reduce : Step::combine, std::max(ready, lock.turn));
  }

  static Ticks longest_phase(const Timing& timing) {
    const Ticks slowed = timing.memory->dip_loss > 0 ? 2 : 1;  // at most
    return std::max({slowed * timing.longest_compute(), timing.reduce, timing.reduce_kv,
                     timing.launch, timing.epilogue, timing.next_lane.value_or(0),
                     timing.latency + timing.memory->congestion + 4 * timing.memory->spread});
  }
  [[nodiscard]] Sm sm_of(const Station& station) const { return {station.actor / 2}; }
  [[nodiscard]] std::int64_t dkv_lock(const Task& task) const {
    return dq_tiles_ + table_.problem.dkv_place(task);
  }
  [[nodiscard]] std::int64_t kv_tiles() const { return table_.problem.kv_tiles(); }

  const Table& table_;
  const Timing& timing_;
  Simulation* record_;  ///< of when phases start; null: nobody asks
  LaneRule rule_;
  MemoryPlay play_;
  TileMemory memory_;
  Load load_;
  Spread spread_;
  std::int64_t dq_tiles_;                      ///< of all heads
  IndexVector<std::int64_t, TurnLock> locks_;  ///< by (head, q), then those of dK and dV
  std::vector<Station> stations_;
  Waiting<Sm> waiting_;         ///< writers for turns
  Calendar due_;                ///< an SM's lane is actor 2 sm, its writer the one after
  Lane next_;                   ///< the next to be taken
  std::int64_t chains_ = 0;     ///< launched
  std::int64_t in_flight_ = 0;  ///< bytes of dQ tiles begun and not finished
};

}  // namespace

MemoryPlay play_memory(const Table& table, const Timing& timing) {
  STAGGER_EXPECTS(timing.memory.has_value() && timing.memory->l2 > 0 && timing.memory->rate > 0);
  const AsPlayed played(table, timing);
  return MemoryPlayer(played.table(), played.timing(), nullptr).run();
}

Simulation simulate_with_memory(const Table& table, const Timing& timing) {
  STAGGER_EXPECTS(timing.memory.has_value() && timing.memory->l2 > 0 && timing.memory->rate > 0);
  const AsPlayed played(table, timing);
  const std::size_t slots = played.table().slots.size();
  Simulation simulation;
  simulation.reduce_start.assign(slots, -1);
  simulation.compute_start.assign(slots, -1);
  if (timing.memory->dip_loss > 0) simulation.compute_longer.assign(slots, 0);
  if (table.problem.combine == Combine::ordered) simulation.reduce_kv_start.assign(slots, -1);
  simulation.lanes.resize(table.lanes());
  const MemoryPlay play = MemoryPlayer(played.table(), played.timing(), &simulation).run();
  simulation.complete = true;
  simulation.makespan = play.makespan;
  simulation.last_reduction = play.last_reduction;
  return simulation;
}

std::optional<Ticks> makespan_of(const Table& table, const Timing& timing) {
  const Simulation simulation = simulate(table, timing);
  if (!simulation.complete) return std::nullopt;
  return timing.memory ? play_memory(table, timing).makespan : simulation.makespan;
}

}  // namespace stagger::sim
