#include "schedules/search/evaluate.hpp"

#include "core/rank_places.hpp"
#include "schedules/search/memory_time.hpp"

#include <algorithm>
#include <deque>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

namespace stagger::search {
namespace {

constexpr Ticks kNotYet = -1;
constexpr std::int64_t kMostSteps = std::int64_t{1} << 30;  ///< seconds
constexpr std::int64_t kOften = std::int64_t{1} << 20;      ///< steps: milliseconds

class LaneByLane {
 public:
  LaneByLane(const Table& table, const Timing& timing)
      : table_(table),
        timing_(timing),
        overlap_(timing.model == Model::overlap),
        delayed_(timing.release == Release::delayed),
        places_(table.problem),
        turn_(places_.size(), kNotYet),
        waiting_(places_.size(), -1),
        lanes_(at(table.lanes())) {
    starts_.compute.resize(table.slots.size());
    starts_.reduce.resize(table.slots.size());
  }

  std::optional<Starts> run() {
    const std::int32_t resident = resident_lanes(table_.problem, timing_.residency);
    std::int32_t next = 0;
    while (next < std::min(resident, table_.lanes()))
      launch(next++, 0);
    play();
    // The earliest end known is the next to come: whatever still waits, waits for a lane that is
    // launched at that end or later.
    while (next < table_.lanes() && !ends_.empty()) {
      const Ticks end = ends_.top();
      ends_.pop();
      launch(next++, end);
      play();
    }
    if (done_ != std::ssize(table_.slots)) return std::nullopt;
    return std::move(starts_);
  }

 private:
  struct LaneState {
    std::int64_t next = 0;  ///< slot
    Ticks free = 0;         ///< when its next compute phase or launch can start
    Ticks writer = 0;       ///< when its last reduction ends
  };

  void launch(std::int32_t lane, Ticks time) {
    lanes_[at(lane)] = {.next = table_.lane_begin[at(lane)], .free = time, .writer = time};
    runnable_.push_back(lane);
  }

  void play() {
    while (!runnable_.empty()) {
      const std::int32_t lane = runnable_.back();
      runnable_.pop_back();
      advance(lane);
    }
  }

  /// Plays a lane until it has to wait for a rank that was not played yet.
  void advance(std::int32_t lane) {
    LaneState& state = lanes_[at(lane)];
    for (; state.next < table_.end_of(Lane{lane}); ++state.next) {
      const Slot& slot = table_.slots[at(state.next)];
      const std::size_t place = places_.of(slot.task, slot.rank);
      if (slot.rank > 0 && turn_[place] == kNotYet) {
        waiting_[place] = lane;
        return;
      }
      const bool first = table_.begins_chain(Lane{lane}, state.next);
      const Ticks begins = state.free + (first ? timing_.launch : 0);
      const Ticks computed = begins + timing_.compute_of(table_.problem, slot.task);
      const Ticks handed = overlap_ ? std::max(computed, state.writer) : computed;
      const Ticks start = slot.rank > 0 ? std::max(handed, turn_[place]) : handed;
      starts_.compute[at(state.next)] = begins;
      starts_.reduce[at(state.next)] = start;
      if (delayed_ && !first) release((&slot)[-1], start + timing_.reduce / 2);
      state.writer = start + timing_.reduce;
      state.free = overlap_ ? handed : state.writer;
      const bool last = table_.ends_chain(Lane{lane}, state.next);
      if (last) state.free += timing_.epilogue;
      if (last || !delayed_) release(slot, state.writer);
      ++done_;
    }
    const Ticks lane_end = std::max(state.free, state.writer);
    starts_.makespan = std::max(starts_.makespan, lane_end);
    ends_.push(lane_end);
  }

  void release(const Slot& slot, Ticks time) {
    if (slot.rank + 1 == table_.problem.grid.contributions(slot.task.q)) return;
    const std::size_t next = places_.of(slot.task, slot.rank + 1);
    turn_[next] = time + timing_.latency;
    if (waiting_[next] >= 0) runnable_.push_back(waiting_[next]);
  }

  const Table& table_;
  const Timing& timing_;
  bool overlap_;
  bool delayed_;
  RankPlaces places_;
  std::vector<Ticks> turn_;            ///< by rank: when it may start
  std::vector<std::int32_t> waiting_;  ///< by rank: the lane that waits for it
  std::vector<LaneState> lanes_;
  std::vector<std::int32_t> runnable_;
  /// When the lanes played to their end, and not yet followed by another one, ended.
  std::priority_queue<Ticks, std::vector<Ticks>, std::greater<>> ends_;
  std::int64_t done_ = 0;
  Starts starts_;
};

class SlotStarts {
 public:
  explicit SlotStarts(const Table& table)
      : table_(table), places_(table.problem), chain_of_(table.slots.size()) {
    slot_of_.resize(places_.size());
    for (Lane lane{0}; lane.value < table.lanes(); ++lane)
      add_lane(lane);
    start_.assign(first_.size(), 0);
    moves_.assign(first_.size(), 0);
    first_.push_back(std::ssize(table.slots));
  }

  std::optional<std::int64_t> run(const Stop& stop) {
    std::deque<std::size_t> changed = in_waiting_order();
    std::vector<bool> queued(start_.size(), true);
    std::int64_t makespan = 0;
    std::int64_t steps = 0;
    std::int64_t asked = 0;
    while (!changed.empty()) {
      const std::size_t chain = changed.front();
      changed.pop_front();
      queued[chain] = false;
      steps += length(chain);
      if (steps > kMostSteps) return std::nullopt;
      if (steps > asked + kOften) {
        if (stop()) return std::nullopt;
        asked = steps;
      }
      makespan = std::max(makespan, start_[chain] + length(chain));
      const bool settles = each_after(chain, [&](std::size_t other, std::int64_t distance) {
        if (start_[other] >= start_[chain] + distance) return true;
        if (other == chain) return false;
        start_[other] = start_[chain] + distance;
        if (queued[other]) return true;
        changed.push_back(other);
        queued[other] = true;
        return ++moves_[other] <= std::ssize(start_);  // more: a cycle that never settles
      });
      if (!settles) return std::nullopt;
    }
    return makespan;
  }

 private:
  [[nodiscard]] std::int64_t length(std::size_t chain) const {
    return first_[chain + 1] - first_[chain];
  }

  /// Calls `visit` with every chain that has to start some distance after this one, which may be
  /// below 0, until it says false; whether it never did.
  template <class Visit>
  [[nodiscard]] bool each_after(std::size_t chain, Visit visit) const {
    if (continues_[chain] && !visit(chain + 1, length(chain))) return false;
    for (std::int64_t slot = first_[chain]; slot < first_[chain + 1]; ++slot) {
      const auto& [task, rank] = table_.slots[slot];
      if (rank + 1 == table_.problem.grid.contributions(task.q)) continue;
      const std::int64_t next = slot_of_[places_.of(task, rank + 1)];
      const std::size_t other = chain_of_[at(next)];
      if (!visit(other, slot - first_[chain] + 1 - (next - first_[other]))) return false;
    }
    return true;
  }

  /// The chains, those that others wait for before these: where no chains wait for each other, each
  /// then has its start before it is looked at. The rest follows by index.
  [[nodiscard]] std::deque<std::size_t> in_waiting_order() const {
    std::vector<std::int64_t> awaited(start_.size(), 0);
    for (std::size_t chain = 0; chain < start_.size(); ++chain)
      static_cast<void>(
          each_after(chain, [&](std::size_t other, std::int64_t) { return ++awaited[other] > 0; }));
    std::vector<std::size_t> order;
    std::vector<bool> ordered(start_.size(), false);
    const auto add = [&](std::size_t chain) {
      order.push_back(chain);
      ordered[chain] = true;
    };
    for (std::size_t chain = 0; chain < start_.size(); ++chain) {
      if (awaited[chain] == 0) add(chain);
    }
    for (std::size_t next = 0; next < order.size(); ++next) {
      static_cast<void>(each_after(order[next], [&](std::size_t other, std::int64_t) {
        if (--awaited[other] == 0) add(other);
        return true;
      }));
    }
    for (std::size_t chain = 0; chain < start_.size(); ++chain) {
      if (!ordered[chain]) order.push_back(chain);
    }
    return {order.begin(), order.end()};
  }

  void add_lane(Lane lane) {
    for (std::int64_t slot = table_.begin_of(lane); slot < table_.end_of(lane); ++slot) {
      const auto& [task, rank] = table_.slots[slot];
      if (table_.begins_chain(lane, slot)) {
        if (slot > table_.begin_of(lane)) continues_.back() = true;
        first_.push_back(slot);
        continues_.push_back(false);
      }
      chain_of_[at(slot)] = first_.size() - 1;
      slot_of_[places_.of(task, rank)] = slot;
    }
  }

  const Table& table_;
  RankPlaces places_;
  std::vector<std::size_t> chain_of_;  ///< by slot of the table
  std::vector<std::int64_t> slot_of_;  ///< by rank
  std::vector<std::int64_t> first_;    ///< by chain: its first slot of the table
  std::vector<bool> continues_;        ///< by chain: another one follows on its lane
  std::vector<std::int64_t> start_;    ///< by chain: its slot in time
  std::vector<std::int64_t> moves_;    ///< by chain: how often it was queued again
};

}  // namespace

std::optional<Starts> starts_of(const Table& table, const Timing& timing) {
  return LaneByLane(table, timing).run();
}

std::optional<Ticks> makespan_of(const Table& table, const Timing& timing) {
  const std::optional<Starts> starts = starts_of(table, timing);
  if (!starts) return std::nullopt;
  return timing.memory ? memory_time(table, timing, *starts) : starts->makespan;
}

std::optional<std::int64_t> slots_of(const Table& table, const Stop& stop) {
  return SlotStarts(table).run(stop);
}

}  // namespace stagger::search
