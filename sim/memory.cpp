// The simulator runs ahead of time, which no cache can: what is in it is what came before. So a
// table with a memory is stepped through, by a queue that has two steps of an SM at most: one of
// its lane and one of its writer.

#include "sim/memory.hpp"

#include "core/error.hpp"
#include "core/waiting.hpp"
#include "sim/lane_clock.hpp"
#include "sim/tile_cache.hpp"

#include <algorithm>
#include <compare>
#include <functional>
#include <queue>
#include <random>
#include <utility>
#include <vector>

namespace stagger::sim {
namespace {

/// The tiles of a problem, kind after kind.
class Tiles {
 public:
  Tiles(const Problem& problem, const TileBytes& bytes)
      : bytes_(bytes),
        problem_(problem),
        q_tiles_(problem.grid.q_tiles()),
        kv_tiles_(problem.grid.kv_tiles()),
        q_(std::int64_t{problem.heads} * q_tiles_),
        kv_(2 * q_),
        gradient_(kv_ + std::int64_t{problem.heads_kv} * kv_tiles_),
        count_(gradient_ + problem.chains()) {}

  [[nodiscard]] std::int64_t count() const { return count_; }
  [[nodiscard]] std::int64_t dq(const Task& task) const {
    return std::int64_t{task.head.value} * q_tiles_ + task.q.value;
  }
  [[nodiscard]] std::int64_t q(const Task& task) const { return q_ + dq(task); }
  [[nodiscard]] std::int64_t kv(const Task& task) const {
    return kv_ + std::int64_t{problem_.kv_head_of(task.head).value} * kv_tiles_ + task.kv.value;
  }
  [[nodiscard]] std::int64_t gradient(const Task& task) const {
    return gradient_ + (problem_.combine == Combine::ordered ? problem_.dkv_place(task)
                                                             : problem_.chain_place(task));
  }
  [[nodiscard]] std::int64_t bytes(std::int64_t tile) const {
    if (tile < q_) return bytes_.dq;
    if (tile < kv_) return bytes_.q;
    return tile < gradient_ ? bytes_.kv : bytes_.gradient;
  }

 private:
  TileBytes bytes_;
  const Problem& problem_;
  std::int64_t q_tiles_;
  std::int64_t kv_tiles_;
  std::int64_t q_;  ///< the first tile of Q and dO; those of dQ are before
  std::int64_t kv_;
  std::int64_t gradient_;
  std::int64_t count_;
};

/// Device memory: channels that move a tile each, in the order in which they were asked, an exact
/// number of bytes a tick. Which one has a tile is drawn, as addresses are spread by hashes.
class Channels {
 public:
  explicit Channels(std::int64_t rate) : rate_(rate), channels_(kMemoryChannels) {}

  /// Asks for so many bytes at `time`, not before any time asked at. Returns when they were moved.
  Ticks move(Ticks time, std::int64_t bytes) {
    const std::uint64_t draw = dice_();
    Channel& channel = channels_[(draw * channels_.size()) >> 32U];
    if (time > channel.served) channel = {.served = time};
    channel.rest += kMemoryChannels * bytes;
    channel.served += channel.rest / rate_;
    channel.rest %= rate_;
    const Ticks moved = channel.served + (channel.rest > 0 ? 1 : 0);
    idle_ = std::max(idle_, moved);
    return moved;
  }

  /// When all that they were asked for was moved.
  [[nodiscard]] Ticks idle() const { return idle_; }

 private:
  struct Channel {
    Ticks served = 0;       ///< whole ticks of work, from time 0 on
    std::int64_t rest = 0;  ///< what is beyond them, below `rate_`
  };

  std::int64_t rate_;  ///< bytes a tick of all of them
  std::vector<Channel> channels_;
  Ticks idle_ = 0;
  std::mt19937 dice_{1};  ///< not the sequence that tiles are thrown out by
};

/// What tiles are in L2 or on their way to it, and what is moved for them.
class TileMemory {
 public:
  TileMemory(const Memory& memory, const Problem& problem, MemoryPlay& play)
      : tiles(problem, memory.tile),
        play_(play),
        channels_(memory.rate),
        cache_(memory.l2, tiles.count()),
        dirty_(at(tiles.count()), false),
        arrival_(tiles.count(), 0) {}

  /// When a tile that is read at `time` is there, `time` at the earliest.
  Ticks load(Ticks time, std::int64_t tile) {
    if (!hits(tile)) {
      play_.read += tiles.bytes(tile);
      arrival_[tile] = channels_.move(time, tiles.bytes(tile));
      take(time, tile);
    }
    return std::max(time, arrival_[tile]);
  }

  /// Overwrites a tile at `time`.
  void store(Ticks time, std::int64_t tile) {
    dirty_[at(tile)] = true;
    arrival_[tile] = time;
    if (!hits(tile)) take(time, tile);
  }

  /// When a tile that is added to at `time` is there.
  Ticks add(Ticks time, std::int64_t tile) {
    dirty_[at(tile)] = true;
    return load(time, tile);
  }

  [[nodiscard]] Ticks idle() const { return channels_.idle(); }

  Tiles tiles;

 private:
  bool hits(std::int64_t tile) {
    const std::int64_t bytes = tiles.bytes(tile);
    const bool held = cache_.holds(static_cast<std::int32_t>(tile));
    play_.touched += bytes;
    play_.hit += held ? bytes : 0;
    return held;
  }

  void take(Ticks time, std::int64_t tile) {
    cache_.take(
        static_cast<std::int32_t>(tile), [this](std::int32_t each) { return tiles.bytes(each); },
        [&](std::int32_t each) { write_back(time, each); });
  }

  /// A tile leaves L2, to device memory if it was written to.
  void write_back(Ticks time, std::int32_t tile) {
    if (!dirty_[at(tile)]) return;
    play_.written += tiles.bytes(tile);
    channels_.move(time, tiles.bytes(tile));
    dirty_[at(tile)] = false;
  }

  MemoryPlay& play_;
  Channels channels_;
  TileCache cache_;
  std::vector<bool> dirty_;                   ///< by tile
  IndexVector<std::int64_t, Ticks> arrival_;  ///< by tile: when it is or was there
};

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
  MemoryPlayer(const Table& table, const Timing& timing)
      : table_(table),
        timing_(timing),
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
  return MemoryPlayer(table, timing).run();
}

}  // namespace stagger::sim
