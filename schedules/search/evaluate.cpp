#include "schedules/search/evaluate.hpp"

#include "core/as_played.hpp"
#include "core/rank_places.hpp"
#include "schedules/search/memory_time.hpp"

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
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
        combines_(table.problem.combine == Combine::ordered),
        places_(table.problem),
        turn_(places_.size(), kNotYet),
        waiting_(places_.size(), -1),
        lanes_(at(table.lanes())) {
    starts_.compute.resize(table.slots.size());
    starts_.reduce.resize(table.slots.size());
    if (!combines_) return;
    starts_.combine.resize(table.slots.size());
    kv_turn_.assign(at(table.problem.chains()), kNotYet);
    kv_waiting_.assign(at(table.problem.chains()), -1);
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
    const bool ended = std::ranges::none_of(lanes_, &LaneState::to_combine);
    if (done_ != std::ssize(table_.slots) || !ended) return std::nullopt;
    return std::move(starts_);
  }

 private:
  struct LaneState {
    std::int64_t next = 0;    ///< slot
    Ticks free = 0;           ///< when its next compute phase or launch can start
    Ticks writer = 0;         ///< when its last reduction ends
    bool to_combine = false;  ///< the slot is reduced, its chain is not
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
      if (state.to_combine) {
        if (!combine(lane, state)) return;
        continue;
      }
      const Slot& slot = table_.slots[at(state.next)];
      const std::size_t place = places_.of(slot.task, slot.rank);
      if (slot.rank > 0 && turn_[place] == kNotYet) {
        waiting_[place] = lane;
        return;
      }
      const bool first = table_.begins_chain(Lane{lane}, state.next);
      const Ticks begins = state.free + (first ? timing_.launch : 0);
      const Ticks computed = begins + timing_.compute_of(table_.problem, slot.task);
      const Ticks handed = std::max(computed, state.writer);
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
      state.to_combine = last && combines_;
      if (state.to_combine && !combine(lane, state)) return;
    }
    const Ticks lane_end = std::max(state.free, state.writer);
    starts_.makespan = std::max(starts_.makespan, lane_end);
    ends_.push(lane_end);
  }

  /// Reduces the chain that ends at hand into dK and dV; false if its turn is not known yet.
  bool combine(std::int32_t lane, LaneState& state) {
    const Problem& problem = table_.problem;
    const Task& task = table_.slots[at(state.next)].task;
    const std::int32_t rank = table_.dkv_rank(task);
    const std::size_t place = at(problem.dkv_place(task) * problem.group_parts() + rank);
    if (rank > 0 && kv_turn_[place] == kNotYet) {
      kv_waiting_[place] = lane;
      return false;
    }
    const Ticks start = rank > 0 ? std::max(state.writer, kv_turn_[place]) : state.writer;
    starts_.combine[at(state.next)] = start;
    state.writer = start + timing_.reduce_kv;
    if (!timing_.reduce_kv_async) state.free = state.writer + timing_.epilogue;
    state.to_combine = false;
    const KvHead kv_head = problem.kv_head_of(task.head);
    if (rank + 1 == problem.dkv_contributions(kv_head, task.kv)) return true;
    kv_turn_[place + 1] = state.writer + timing_.latency;
    if (kv_waiting_[place + 1] >= 0) runnable_.push_back(kv_waiting_[place + 1]);
    return true;
  }

  void release(const Slot& slot, Ticks time) {
    if (slot.rank + 1 == table_.problem.contributions(slot.task)) return;
    const std::size_t next = places_.of(slot.task, slot.rank + 1);
    turn_[next] = time + timing_.latency;
    if (waiting_[next] >= 0) runnable_.push_back(waiting_[next]);
  }

  const Table& table_;
  const Timing& timing_;
  bool overlap_;
  bool delayed_;
  bool combines_;  ///< chains are reduced into dK and dV, in order
  RankPlaces places_;
  std::vector<Ticks> turn_;            ///< by rank: when it may start
  std::vector<std::int32_t> waiting_;  ///< by rank: the lane that waits for it
  std::vector<Ticks> kv_turn_;         ///< by (KV head, kv, rank of a part)
  std::vector<std::int32_t> kv_waiting_;
  std::vector<LaneState> lanes_;
  std::vector<std::int32_t> runnable_;
  /// When the lanes played to their end, and not yet followed by another one, ended.
  std::priority_queue<Ticks, std::vector<Ticks>, std::greater<>> ends_;
  std::int64_t done_ = 0;
  Starts starts_;
};

class SlotStarts {
 public:
  explicit SlotStarts(const Table& table) : table_(table) {
    for (Lane lane{0}; lane.value < table.lanes(); ++lane) {
      for (std::int64_t slot = table.begin_of(lane); slot < table.end_of(lane); ++slot) {
        if (!table.begins_chain(lane, slot)) continue;
        continues_.push_back(slot > table.begin_of(lane));
        first_.push_back(slot);
      }
    }
    start_.assign(first_.size(), 0);
    moves_.assign(first_.size(), 0);
    first_.push_back(std::ssize(table.slots));
    continues_.push_back(false);
    find_waits();
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
      steps += 1 + waits_begin_[chain + 1] - waits_begin_[chain];
      if (steps > kMostSteps) return std::nullopt;
      if (steps > asked + kOften) {
        if (stop()) return std::nullopt;
        asked = steps;
      }
      makespan = std::max(makespan, start_[chain] + length(chain));
      for (std::int64_t wait = waits_begin_[chain]; wait < waits_begin_[chain + 1]; ++wait) {
        const auto [other, distance] = waits_[at(wait)];
        if (start_[other] >= start_[chain] + distance) continue;
        start_[other] = start_[chain] + distance;
        if (queued[other]) continue;
        changed.push_back(other);
        queued[other] = true;
        if (++moves_[other] > std::ssize(start_)) return std::nullopt;  // a cycle: never settles
      }
    }
    return makespan;
  }

 private:
  /// Another chain has to start some rounds after this one, or before it if below 0.
  struct Wait {
    std::uint32_t chain = 0;
    std::int32_t distance = 0;
    friend auto operator<=>(const Wait&, const Wait&) = default;
  };

  using PartRank = std::pair<std::int64_t, std::int32_t>;  ///< by Problem::dkv_place

  [[nodiscard]] std::int64_t length(std::size_t chain) const {
    return first_[chain + 1] - first_[chain];
  }

  /// The chains that wait for each chain: for its end, for its tasks, or for its turn at dK and dV.
  /// Of several waits between two chains the longest counts.
  void find_waits() {
    const RankPlaces places(table_.problem);
    const std::vector<Wait> next_rank = positions(places);
    const std::map<PartRank, std::uint32_t> parts = chains_by_part_rank();
    std::vector<Wait> of_chain;
    for (std::size_t chain = 0; chain < start_.size(); ++chain) {
      waits_begin_.push_back(std::ssize(waits_));
      const auto tasks = static_cast<std::int32_t>(length(chain));
      if (continues_[chain + 1]) {
        of_chain.push_back({static_cast<std::uint32_t>(chain) + 1, tasks});
      }
      for (std::int32_t position = 0; position < tasks; ++position) {
        const auto& [task, rank] = table_.slots[first_[chain] + position];
        if (rank + 1 == table_.problem.contributions(task)) continue;
        const Wait& next = next_rank[places.of(task, rank + 1)];
        of_chain.push_back({next.chain, position + 1 - next.distance});
      }
      const Task& last = table_.slots[first_[chain + 1] - 1].task;
      const auto in_turn = parts.find({table_.problem.dkv_place(last), table_.dkv_rank(last) + 1});
      if (in_turn != parts.end()) {  // ends a round later at least
        of_chain.push_back(
            {in_turn->second, tasks + 1 - static_cast<std::int32_t>(length(in_turn->second))});
      }
      std::sort(of_chain.begin(), of_chain.end());
      for (std::size_t wait = 0; wait < of_chain.size(); ++wait) {
        const bool longest =
            wait + 1 == of_chain.size() || of_chain[wait + 1].chain != of_chain[wait].chain;
        if (longest) waits_.push_back(of_chain[wait]);
      }
      of_chain.clear();
    }
    waits_begin_.push_back(std::ssize(waits_));
  }

  /// Where parts are combined in order, which chain has a rank among a KV tile's.
  [[nodiscard]] std::map<PartRank, std::uint32_t> chains_by_part_rank() const {
    std::map<PartRank, std::uint32_t> chains;
    if (table_.problem.combine != Combine::ordered) return chains;
    for (std::uint32_t chain = 0; chain < start_.size(); ++chain) {
      const Task& task = table_.slots[first_[chain]].task;
      chains[{table_.problem.dkv_place(task), table_.dkv_rank(task)}] = chain;
    }
    return chains;
  }

  /// Which chain has a rank, and how far in it, by rank.
  [[nodiscard]] std::vector<Wait> positions(const RankPlaces& places) const {
    std::vector<Wait> positions(places.size());
    for (std::uint32_t chain = 0; chain < start_.size(); ++chain) {
      for (std::int64_t slot = first_[chain]; slot < first_[chain + 1]; ++slot) {
        const auto& [task, rank] = table_.slots[slot];
        positions[places.of(task, rank)] = {chain, static_cast<std::int32_t>(slot - first_[chain])};
      }
    }
    return positions;
  }

  /// The chains, those that others wait for before these: where no chains wait for each other, each
  /// then has its start before it is looked at. The rest follows by index.
  [[nodiscard]] std::deque<std::size_t> in_waiting_order() const {
    std::vector<std::int64_t> awaited(start_.size(), 0);
    for (const Wait& wait : waits_)
      ++awaited[wait.chain];
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
      for (std::int64_t wait = waits_begin_[order[next]]; wait < waits_begin_[order[next] + 1];
           ++wait) {
        const std::size_t other = waits_[at(wait)].chain;
        if (--awaited[other] == 0) add(other);
      }
    }
    for (std::size_t chain = 0; chain < start_.size(); ++chain) {
      if (!ordered[chain]) order.push_back(chain);
    }
    return {order.begin(), order.end()};
  }

  const Table& table_;
  std::vector<std::int64_t> first_;        ///< by chain: its first slot of the table
  std::vector<bool> continues_;            ///< by chain: another one is before it on its lane
  std::vector<std::int64_t> start_;        ///< by chain: its first round
  std::vector<std::int64_t> moves_;        ///< by chain: how often it was queued again
  std::vector<std::int64_t> waits_begin_;  ///< by chain: its first of waits_
  std::vector<Wait> waits_;                ///< for the chain
};

}  // namespace

std::optional<Starts> starts_of(const Table& table, const Timing& timing) {
  return LaneByLane(table, timing).run();
}

std::optional<Rating> rating_of(const Table& table, const Timing& timing) {
  std::optional<Rating> rating = rating_by_own_draw(table, timing);
  if (rating && timing.memory) {
    rating->cost =
        mean_cost(timing, std::ssize(table.slots), rating->cost,
                  [&](const Timing& other) { return rating_by_own_draw(table, other)->cost; });
  }
  return rating;
}

std::optional<Rating> rating_by_own_draw(const Table& table, const Timing& timing) {
  if (timing.memory) {
    const std::optional<MemoryTime> time = memory_time(table, timing);
    if (!time) return std::nullopt;
    return Rating{time->makespan, cost_of(time->makespan, time->in_flight, *timing.memory)};
  }
  const AsPlayed played(table, timing);
  const std::optional<Starts> starts = starts_of(played.table(), played.timing());
  if (!starts) return std::nullopt;
  return Rating{starts->makespan, starts->makespan};
}

std::optional<Ticks> makespan_of(const Table& table, const Timing& timing) {
  const std::optional<Rating> rating = rating_by_own_draw(table, timing);
  return rating ? std::optional(rating->makespan) : std::nullopt;
}

std::optional<std::int64_t> rounds_of(const Table& table, const Stop& stop) {
  return SlotStarts(table).run(stop);
}

}  // namespace stagger::search
