#include "sim/memory.hpp"

#include "core/error.hpp"
#include "sim/played.hpp"
#include "sim/tile_cache.hpp"

#include <algorithm>
#include <utility>

namespace stagger::sim {
namespace {

constexpr Ticks kRoundsAWindow = 8;

Ticks times(Ticks value, Ticks part, Ticks whole) {
  __extension__ using Wide = __int128;
  return static_cast<Ticks>(static_cast<Wide>(value) * part / whole);
}

/// How long a round lasts.
Ticks round_of(const Timing& timing) {
  const Ticks task = timing.compute + timing.reduce;
  return task > 0 ? task : 1;
}

enum class Access : std::uint8_t { load, store, add };

struct Touch {
  std::int32_t tile = 0;
  Access access = Access::load;
  bool ends_dq = false;  ///< the last rank's
};

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

  [[nodiscard]] bool is_dq(std::int32_t tile) const { return tile < q_; }
  [[nodiscard]] std::int64_t bytes(std::int32_t tile) const {
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

/// Every touch of a played table by its round, and within a round lane by lane.
class TouchLog {
 public:
  TouchLog(const Played& played, const Tiles& tiles)
      : played_(played), tiles_(tiles), round_(round_of(played.timing())) {
    index_rounds();
    begin_.assign(buckets() + 1, 0);
    each_touch([this](Ticks time, Touch) { ++begin_[bucket(time) + 1]; });
    for (std::size_t next = 1; next < begin_.size(); ++next)
      begin_[next] += begin_[next - 1];
    touches.resize(at(begin_.back()));
    std::vector<std::int64_t> place(begin_.begin(), begin_.end() - 1);
    each_touch([&](Ticks time, Touch touch) { touches[at(place[bucket(time)]++)] = touch; });
  }

  /// Buckets hold the touches of a round each, in the order of time.
  [[nodiscard]] std::size_t buckets() const {
    return rounds_.empty() ? at(played_.simulation().makespan / round_ + 1) : rounds_.size();
  }
  [[nodiscard]] std::int64_t begin(std::size_t bucket) const { return begin_[bucket]; }
  [[nodiscard]] std::int64_t number_of(std::size_t bucket) const {
    return rounds_.empty() ? static_cast<std::int64_t>(bucket) : rounds_[bucket];
  }

  std::vector<Touch> touches;

 private:
  /// Rounds without a touch have no bucket where they are the most.
  void index_rounds() {
    const std::int64_t slots = std::ssize(played_.table().slots);
    if (played_.simulation().makespan / round_ < 8 * slots) return;
    each_touch([this](Ticks time, Touch) { rounds_.push_back(time / round_); });
    std::sort(rounds_.begin(), rounds_.end());
    rounds_.erase(std::unique(rounds_.begin(), rounds_.end()), rounds_.end());
  }

  [[nodiscard]] std::size_t bucket(Ticks time) const {
    if (rounds_.empty()) return at(time / round_);
    const auto found = std::lower_bound(rounds_.begin(), rounds_.end(), time / round_);
    return at(found - rounds_.begin());
  }

  template <class Use>
  void each_touch(Use use) const {
    for (Lane lane{0}; lane.value < played_.table().lanes(); ++lane)
      played_.each_slot(lane, [&](const PlayedSlot& slot) { each_touch(slot, use); });
  }

  template <class Use>
  void each_touch(const PlayedSlot& played, Use use) const {
    const auto& [task, rank] = played.slot;
    const auto touch = [&](Ticks time, std::int64_t tile, Access access, bool ends_dq = false) {
      use(time, Touch{static_cast<std::int32_t>(tile), access, ends_dq});
    };
    const bool ends_dq = rank + 1 == played_.table().problem.grid.contributions(task.q);
    if (played.begins_chain) touch(played.launch.start, tiles_.kv(task), Access::load);
    touch(played.compute.start, tiles_.q(task), Access::load);
    touch(played.reduce.start, tiles_.dq(task), rank == 0 ? Access::store : Access::add, ends_dq);
    if (!played.ends_chain) return;
    if (played.wait_kv.start < 0) {
      touch(played.reduce.start, tiles_.gradient(task), Access::store);
    } else {
      const bool first = played_.table().dkv_rank(task) == 0;
      touch(played.reduce_kv.start, tiles_.gradient(task), first ? Access::store : Access::add);
    }
  }

  const Played& played_;
  const Tiles& tiles_;
  Ticks round_;
  std::vector<std::int64_t> rounds_;  ///< by bucket; empty: every round has one
  std::vector<std::int64_t> begin_;   ///< by bucket: its first touch; and the end of the last
};

class Player {
 public:
  explicit Player(const Played& played)
      : memory_(*played.timing().memory),
        simulation_(played.simulation()),
        tiles_(played.table().problem, memory_.tile),
        log_(played, tiles_),
        window_(kRoundsAWindow * round_of(played.timing())),
        cache_(memory_.l2, tiles_.count()),
        dirty_(at(tiles_.count()), false) {}

  MemoryPlay run() {
    for (std::size_t bucket = 0; bucket < log_.buckets(); ++bucket) {
      if (log_.begin(bucket) == log_.begin(bucket + 1)) continue;
      enter_window(log_.number_of(bucket) / kRoundsAWindow * window_);
      for (std::int64_t place = log_.begin(bucket); place < log_.begin(bucket + 1); ++place)
        touch(log_.touches[at(place)]);
    }
    close_window(simulation_.makespan);
    play_.makespan = play_.at(simulation_.makespan);
    play_.last_reduction = play_.at(simulation_.last_reduction);
    return std::move(play_);
  }

 private:
  void enter_window(Ticks phases) {
    if (!play_.windows.empty() && play_.windows.back().phases == phases) return;
    close_window(phases);
    const Ticks start = play_.at(phases);
    play_.windows.push_back({.phases = phases, .start = start, .in_flight = in_flight_});
  }

  /// Ends the last window, at `phases` at the latest.
  void close_window(Ticks phases) {
    if (play_.windows.empty()) return;
    MemoryWindow& window = play_.windows.back();
    const Ticks traffic = (window.bytes + memory_.rate - 1) / memory_.rate;
    window.length = std::min(phases - window.phases, window_);
    window.end = window.start + with_traffic(window.length, traffic);
  }

  void touch(const Touch& touch) {
    const std::int64_t bytes = tiles_.bytes(touch.tile);
    play_.touched += bytes;
    if (touch.access != Access::load) dirty_[at(touch.tile)] = true;
    if (tiles_.is_dq(touch.tile)) count_in_flight(touch, bytes);
    if (cache_.holds(touch.tile)) {
      play_.hit += bytes;
      return;
    }
    if (touch.access != Access::store) move(bytes, play_.read);
    cache_.take(
        touch.tile, [this](std::int32_t tile) { return tiles_.bytes(tile); },
        [this](std::int32_t tile) { write_back(tile); });
  }

  void count_in_flight(const Touch& touch, std::int64_t bytes) {
    if (touch.access == Access::store) in_flight_ += bytes;
    MemoryWindow& window = play_.windows.back();
    window.in_flight = std::max(window.in_flight, in_flight_);
    play_.in_flight = std::max(play_.in_flight, in_flight_);
    if (touch.ends_dq) in_flight_ -= bytes;
  }

  /// A tile leaves L2, to device memory if it was written to.
  void write_back(std::int32_t tile) {
    if (dirty_[at(tile)]) move(tiles_.bytes(tile), play_.written);
    dirty_[at(tile)] = false;
  }

  void move(std::int64_t bytes, std::int64_t& sum) {
    sum += bytes;
    play_.windows.back().bytes += bytes;
  }

  const Memory& memory_;
  const Simulation& simulation_;
  Tiles tiles_;
  TouchLog log_;
  Ticks window_;
  TileCache cache_;
  std::vector<bool> dirty_;     ///< by tile
  std::int64_t in_flight_ = 0;  ///< bytes of dQ tiles begun and not finished
  MemoryPlay play_;
};

}  // namespace

Ticks with_traffic(Ticks phases, Ticks traffic) {
  const auto [less, more] = std::minmax(phases, traffic);
  return more == 0 ? 0 : more + times(times(less, less, more), less, more) / 5;
}

Ticks MemoryPlay::at(Ticks phases) const {
  const auto after =
      std::upper_bound(windows.begin(), windows.end(), phases,
                       [](Ticks time, const MemoryWindow& window) { return time < window.phases; });
  if (after == windows.begin()) return phases;
  const MemoryWindow& window = after[-1];
  const Ticks into = phases - window.phases;
  if (into >= window.length) return window.end + into - window.length;
  return window.start + times(window.end - window.start, into, window.length);
}

MemoryPlay play_memory(const Table& table, const Timing& timing, const Simulation& simulation) {
  STAGGER_EXPECTS(timing.memory.has_value() && timing.memory->l2 > 0 && timing.memory->rate > 0);
  STAGGER_EXPECTS(simulation.complete);
  return Player(Played(table, timing, simulation)).run();
}

}  // namespace stagger::sim
