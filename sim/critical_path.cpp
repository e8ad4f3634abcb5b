// The walk knows four kinds of moments of a slot: its compute starts, it is handed over (ready to
// reduce), its reduction starts, the chain that it ends is reduced into dK and dV. From each,
// exactly one earlier moment explains the time.

#include "sim/critical_path.hpp"

#include "core/error.hpp"
#include "core/rank_places.hpp"
#include "sim/played.hpp"

#include <algorithm>
#include <optional>
#include <unordered_map>

namespace stagger::sim {
namespace {

enum class Event { compute_starts, handed_over, reduce_starts, combine_starts };

struct Moment {
  Event event = Event::reduce_starts;
  PlayedSlot slot;
};

/// Any slot of a played table; what finding them takes is made when it is first asked for.
class Slots {
 public:
  explicit Slots(const Played& played) : played_(played), places_(played.table().problem) {}

  /// The slot of a lane at `index`. O(1); in the overlap model O(its slots) for a lane's first.
  PlayedSlot slot(Lane lane, std::int64_t index) {
    const Table& table = played_.table();
    LaneClock clock{.free = played_.run(lane).start};
    if (index > table.begin_of(lane)) {
      const Ticks start = played_.simulation().reduce_start[index - 1];
      const bool ends_chain = table.ends_chain(lane, index - 1);
      const Span epilogue = played_.rule().reduce(start, ends_chain, clock);
      if (ends_chain && played_.rule().combines()) {
        played_.rule().combine(played_.simulation().reduce_kv_start[index - 1], epilogue, clock);
      }
    }
    if (!played_.rule().frees_at_reduction()) {
      clock.free = free_by_slot(lane)[index - table.begin_of(lane)];
    }
    return played_.play(lane, index, clock);
  }
  PlayedSlot before(const PlayedSlot& slot) { return this->slot(slot.lane, slot.index - 1); }
  PlayedSlot after(const PlayedSlot& slot) { return this->slot(slot.lane, slot.index + 1); }
  [[nodiscard]] const LaneRun& run(Lane lane) const { return played_.run(lane); }
  PlayedSlot last_of(Lane lane) { return slot(lane, played_.table().end_of(lane) - 1); }
  /// Whether `slot` is its lane's first.
  [[nodiscard]] bool begins_lane(const PlayedSlot& slot) const {
    return slot.index == played_.table().begin_of(slot.lane);
  }

  /// The slot whose reduction comes before this one's into the same dQ tile. O(log lanes), but the
  /// first time O(tasks), 4 bytes each.
  PlayedSlot rank_before(const PlayedSlot& slot) {
    if (index_by_rank_.empty()) index_ranks();
    const std::int64_t index = index_by_rank_[places_.of(slot.slot.task, slot.slot.rank - 1)];
    const auto& begin = played_.table().lane_begin;
    const auto next = std::upper_bound(begin.begin(), begin.end(), index);
    return this->slot(Lane{static_cast<std::int32_t>(next - begin.begin()) - 1}, index);
  }

  /// The slot that ends the chain that comes before the one that this slot ends, in the
  /// accumulation of dK and dV. O(log lanes), but the first time O(tasks).
  PlayedSlot dkv_rank_before(const PlayedSlot& slot) {
    if (ends_by_dkv_rank_.empty()) index_dkv_ranks();
    const Table& table = played_.table();
    const std::int64_t index = ends_by_dkv_rank_[dkv_rank_place(slot.slot.task) - 1];
    const auto next = std::upper_bound(table.lane_begin.begin(), table.lane_begin.end(), index);
    return this->slot(Lane{static_cast<std::int32_t>(next - table.lane_begin.begin()) - 1}, index);
  }

  /// The last slot of the lane that had the SM before. O(1), but the first time O(lanes).
  PlayedSlot lane_before(const PlayedSlot& slot) {
    if (lanes_before_.empty()) lanes_before_ = played_.lanes_before();
    return last_of(lanes_before_[slot.lane]);
  }

 private:
  const IndexVector<std::int64_t, Ticks>& free_by_slot(Lane lane) {
    IndexVector<std::int64_t, Ticks>& free = free_[lane.value];
    if (free.empty()) {
      free.reserve(played_.table().lane(lane).size());
      played_.each_slot(lane, [&](const PlayedSlot& slot) { free.push_back(slot.launch.start); });
    }
    return free;
  }

  void index_ranks() {
    const auto& slots = played_.table().slots;
    index_by_rank_.resize(slots.size());
    for (std::int64_t index = 0; index < std::ssize(slots); ++index)
      index_by_rank_[places_.of(slots[index].task, slots[index].rank)] =
          static_cast<std::int32_t>(index);
  }

  [[nodiscard]] std::int64_t dkv_rank_place(const Task& task) const {
    const Table& table = played_.table();
    return table.problem.dkv_place(task) * table.problem.group_parts() + table.dkv_rank(task);
  }

  void index_dkv_ranks() {
    const Table& table = played_.table();
    ends_by_dkv_rank_.assign(table.problem.chains(), -1);
    for (Lane lane{0}; lane.value < table.lanes(); ++lane) {
      for (std::int64_t index = table.begin_of(lane); index < table.end_of(lane); ++index) {
        if (!table.ends_chain(lane, index)) continue;
        ends_by_dkv_rank_[dkv_rank_place(table.slots[index].task)] = index;
      }
    }
  }

  const Played& played_;
  RankPlaces places_;
  /// When each lane's SM is free, by place in it.
  std::unordered_map<std::int32_t, IndexVector<std::int64_t, Ticks>> free_;
  std::vector<std::int32_t> index_by_rank_;                   ///< by (head, q, rank)
  IndexVector<std::int64_t, std::int64_t> ends_by_dkv_rank_;  ///< slots, by (KV head, kv, rank)
  IndexVector<Lane, Lane> lanes_before_;
};

/// Walks from a moment to the one that explains it, and keeps what lies between as steps.
class Walk {
 public:
  explicit Walk(const Played& played)
      : timing_(played.timing()),
        overlap_(timing_.model == Model::overlap),
        rule_(played.rule()),
        drains_(timing_.drains(played.table().dispatch)),
        slots_(played) {}

  /// The steps that lead to a lane's end, latest first.
  std::vector<CriticalStep> back_from_end_of(Lane lane, Ticks end) && {
    std::optional<Moment> moment = lane_end(slots_.last_of(lane), end);
    while (moment)
      moment = before(*moment);
    return std::move(steps_);
  }

 private:
  /// nullopt for the source.
  std::optional<Moment> before(const Moment& moment) {
    switch (moment.event) {
      case Event::compute_starts:
        return before_compute(moment.slot);
      case Event::handed_over:
        return before_hand_over(moment.slot);
      case Event::reduce_starts:
        return before_reduction(moment.slot);
      case Event::combine_starts:
        return before_combination(moment.slot);
    }
    return std::nullopt;
  }

  std::optional<Moment> before_compute(const PlayedSlot& slot) {
    add(Phase::launch, slot, slot.launch);
    if (slots_.begins_lane(slot)) {
      if (slot.launch.start == 0) return std::nullopt;
      return before_lane(slot);
    }
    const PlayedSlot previous = slots_.before(slot);
    if (slot.begins_chain) return chain_end(previous);
    return overlap_ ? Moment{Event::handed_over, previous} : reduction(previous);
  }

  /// From a lane's launch: the end of the lane that had the SM, or what comes of it.
  Moment before_lane(const PlayedSlot& slot) {
    const PlayedSlot last = slots_.lane_before(slot);
    const Ticks end = slots_.run(last.lane).end;
    if (slot.launch.start == end) return lane_end(last, end);
    add(Phase::wait, slot, {.start = writer_end(last), .end = slot.launch.start});
    return last_of_writer(last);
  }

  Moment before_hand_over(const PlayedSlot& slot) {
    // Otherwise the writer was still busy with the slot before.
    if (slot.compute.end != slot.handed()) return last_of_writer(slots_.before(slot));
    add(Phase::compute, slot, slot.compute);
    return {Event::compute_starts, slot};
  }

  Moment before_reduction(const PlayedSlot& slot) {
    if (slot.wait.empty()) return {Event::handed_over, slot};
    const Ticks turn = slot.reduce.start;
    add(Phase::wait, slot, {.start = turn - timing_.latency, .end = turn});
    const PlayedSlot previous = slots_.rank_before(slot);
    if (timing_.release == Release::immediate || previous.ends_chain) return reduction(previous);
    // It was released while the next reduction of that chain was under way.
    const PlayedSlot next = slots_.after(previous);
    const Ticks start = next.reduce.start;
    add(Phase::reduce, next, {.start = start, .end = start + timing_.reduce / 2});
    return {Event::reduce_starts, next};
  }

  Moment before_combination(const PlayedSlot& slot) {
    if (slot.wait_kv.empty()) return reduction(slot);
    const Ticks turn = slot.reduce_kv.start;
    add(Phase::wait, slot, {.start = turn - timing_.latency, .end = turn});
    return combination(slots_.dkv_rank_before(slot));
  }

  [[nodiscard]] Ticks writer_end(const PlayedSlot& last) const {
    return rule_.combines() ? last.reduce_kv.end : last.reduce.end;
  }

  /// From the end of a lane, whose last slot is `last`.
  Moment lane_end(const PlayedSlot& last, Ticks end) {
    return goes_on_ && writer_end(last) == end ? last_of_writer(last) : chain_end(last);
  }

  /// From where the SM is free again after `last`, a chain's.
  Moment chain_end(const PlayedSlot& last) {
    add(Phase::epilogue, last, last.epilogue);
    if (rule_.waits_to_combine()) return combination(last);
    return drains_ ? Moment{Event::handed_over, last} : reduction(last);
  }

  /// From the end of the last reduction that the writer does for a slot.
  Moment last_of_writer(const PlayedSlot& slot) {
    return slot.ends_chain && rule_.combines() ? combination(slot) : reduction(slot);
  }

  /// From the end of the reduction of the chain that a slot ends into dK and dV.
  Moment combination(const PlayedSlot& slot) {
    add(Phase::reduce_kv, slot, slot.reduce_kv);
    return {Event::combine_starts, slot};
  }

  /// From the end of a slot's reduction.
  Moment reduction(const PlayedSlot& slot) {
    add(Phase::reduce, slot, slot.reduce);
    return {Event::reduce_starts, slot};
  }

  void add(Phase phase, const PlayedSlot& slot, Span span) {
    if (!span.empty()) steps_.push_back({slot.sm, slot.slot.task, phase, span.start, span.end});
  }

  const Timing& timing_;
  bool overlap_;
  const LaneRule& rule_;
  bool drains_;
  /// Whether the writer may end after the SM is free for another chain.
  bool goes_on_ = drains_ || (rule_.combines() && !rule_.waits_to_combine());
  Slots slots_;
  std::vector<CriticalStep> steps_;
};

}  // namespace

CriticalPath critical_path(const Table& table, const Timing& timing, const Simulation& simulation) {
  STAGGER_EXPECTS(simulation.complete);
  const Played played(table, timing, simulation);
  CriticalPath path;
  path.length = simulation.makespan;
  for (Lane lane{0}; lane.value < table.lanes(); ++lane) {
    if (played.run(lane).end != simulation.makespan || table.lane(lane).empty()) continue;
    path.steps = Walk(played).back_from_end_of(lane, simulation.makespan);
    std::reverse(path.steps.begin(), path.steps.end());
    break;
  }
  return path;
}

}  // namespace stagger::sim
