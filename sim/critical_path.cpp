// The walk knows three kinds of moments of a slot: its reduction starts, it is handed over (ready
// to reduce), its compute starts. From each, exactly one earlier moment explains the time.

#include "sim/critical_path.hpp"

#include "core/error.hpp"
#include "core/rank_places.hpp"

#include <algorithm>
#include <utility>

namespace stagger::sim {
namespace {

std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

class Walk {
 public:
  Walk(const Table& table, const Timing& timing, const Simulation& simulation)
      : table_(table),
        timing_(timing),
        simulation_(simulation),
        places_(table.problem),
        overlap_(timing.model == Model::overlap),
        drains_(overlap_ && table.dispatch == Dispatch::static_) {
    index_ranks();
    index_lanes();
  }

  CriticalPath run() {
    for (Lane lane{0}; lane.value < table_.lanes(); ++lane) {
      if (simulation_.lanes[at(lane.value)].end == simulation_.makespan &&
          !table_.lane(lane).empty()) {
        from_lane_end(lane);
        break;
      }
    }
    while (moment_ != Moment::source)
      step_back();
    std::reverse(path_.steps.begin(), path_.steps.end());
    path_.length = simulation_.makespan;
    return std::move(path_);
  }

 private:
  enum class Moment { reduce_starts, handed_over, compute_starts, source };

  void index_ranks() {
    slot_of_rank_.resize(table_.slots.size());
    for (std::int64_t slot = 0; slot < std::ssize(table_.slots); ++slot) {
      const auto& [task, rank] = table_.slots[at(slot)];
      slot_of_rank_[places_.of(task, rank)] = static_cast<std::int32_t>(slot);
    }
  }

  void index_lanes() {
    std::vector<Lane> last(at(table_.problem.sms), Lane{-1});
    for (Lane lane{0}; lane.value < table_.lanes(); ++lane) {
      Lane& on_sm = last[at(simulation_.lanes[at(lane.value)].sm.value)];
      before_.push_back(on_sm);
      if (!table_.lane(lane).empty()) on_sm = lane;
    }
  }

  void step_back() {
    switch (moment_) {
      case Moment::reduce_starts:
        return from_reduce_start();
      case Moment::handed_over:
        return from_hand_over();
      case Moment::compute_starts:
        return from_compute_start();
      case Moment::source:
        return;
    }
  }

  void from_reduce_start() {
    if (handed(slot_) == reduce_start(slot_)) {
      moment_ = Moment::handed_over;
      return;
    }
    const Ticks turn = reduce_start(slot_);
    add(Phase::wait, turn - timing_.latency, turn);
    const auto& [task, rank] = table_.slots[at(slot_)];
    slot_ = slot_of_rank_[places_.of(task, rank - 1)];
    if (timing_.release == Release::delayed && !ends_chain(slot_)) {
      ++slot_;
      add(Phase::reduce, reduce_start(slot_), reduce_start(slot_) + timing_.reduce / 2);
      return;  // released while the next reduction of that chain is under way
    }
    add_reduce();
  }

  void from_hand_over() {
    const Ticks computed = compute_end(slot_);
    if (computed == handed(slot_)) {
      add(Phase::compute, compute_start(slot_), computed);
      moment_ = Moment::compute_starts;
    } else {
      --slot_;  // the writer was still busy with the slot before
      add_reduce();
    }
  }

  void from_compute_start() {
    const bool first = begins_chain(slot_);
    if (first) add(Phase::launch, compute_start(slot_) - timing_.launch, compute_start(slot_));
    if (slot_ == lane_begin()) return from_lane_start();
    --slot_;
    if (first) {
      from_chain_end();
    } else if (overlap_) {
      moment_ = Moment::handed_over;
    } else {
      add_reduce();
    }
  }

  void from_lane_start() {
    const Lane before = before_[at(lane_.value)];
    if (simulation_.lanes[at(lane_.value)].start == 0) {
      moment_ = Moment::source;
    } else {
      from_lane_end(before);
    }
  }

  void from_lane_end(Lane lane) {
    lane_ = lane;
    slot_ = table_.lane_begin[at(lane.value) + 1] - 1;
    const Ticks drained = reduce_start(slot_) + timing_.reduce;
    if (drains_ && drained == simulation_.lanes[at(lane.value)].end) {
      add_reduce();
    } else {
      from_chain_end();
    }
  }

  /// From where the SM is free again after `slot_`, a chain's last.
  void from_chain_end() {
    const Ticks work_ends = drains_ ? handed(slot_) : reduce_start(slot_) + timing_.reduce;
    add(Phase::epilogue, work_ends, work_ends + timing_.epilogue);
    if (drains_) {
      moment_ = Moment::handed_over;
    } else {
      add_reduce();
    }
  }

  void add_reduce() {
    add(Phase::reduce, reduce_start(slot_), reduce_start(slot_) + timing_.reduce);
    moment_ = Moment::reduce_starts;
  }

  void add(Phase phase, Ticks start, Ticks end) {
    if (slot_ < lane_begin() || slot_ >= table_.lane_begin[at(lane_.value) + 1]) find_lane();
    if (start == end) return;
    path_.steps.push_back(
        {simulation_.lanes[at(lane_.value)].sm, table_.slots[at(slot_)].task, phase, start, end});
  }

  void find_lane() {
    const auto next = std::upper_bound(table_.lane_begin.begin(), table_.lane_begin.end(), slot_);
    lane_.value = static_cast<std::int32_t>(next - table_.lane_begin.begin()) - 1;
  }

  [[nodiscard]] Ticks compute_start(std::int64_t slot) const {
    return simulation_.compute_start[at(slot)];
  }
  [[nodiscard]] Ticks compute_end(std::int64_t slot) const {
    return compute_start(slot) + timing_.compute_of(table_.problem, table_.slots[at(slot)].task);
  }
  [[nodiscard]] Ticks reduce_start(std::int64_t slot) const {
    return simulation_.reduce_start[at(slot)];
  }
  [[nodiscard]] Ticks handed(std::int64_t slot) const {
    const Ticks computed = compute_end(slot);
    if (!overlap_ || slot == lane_begin()) return computed;
    return std::max(computed, reduce_start(slot - 1) + timing_.reduce);
  }
  [[nodiscard]] std::int64_t lane_begin() const { return table_.lane_begin[at(lane_.value)]; }
  [[nodiscard]] bool begins_chain(std::int64_t slot) const {
    return stagger::begins_chain(&table_.slots[at(lane_begin())], &table_.slots[at(slot)]);
  }
  /// Of any lane's slot.
  [[nodiscard]] bool ends_chain(std::int64_t slot) const {
    return std::binary_search(table_.lane_begin.begin(), table_.lane_begin.end(), slot + 1) ||
           stagger::begins_chain(&table_.slots[at(slot)], &table_.slots[at(slot + 1)]);
  }
  const Table& table_;
  const Timing& timing_;
  const Simulation& simulation_;
  RankPlaces places_;
  bool overlap_;
  bool drains_;
  std::vector<std::int32_t> slot_of_rank_;  ///< by (head, q, rank)
  std::vector<Lane> before_;  ///< by lane: the last with tasks before it on its SM, or -1
  Lane lane_;
  std::int64_t slot_ = 0;
  Moment moment_ = Moment::source;
  CriticalPath path_;
};

}  // namespace

CriticalPath critical_path(const Table& table, const Timing& timing, const Simulation& simulation) {
  STAGGER_EXPECTS(simulation.complete);
  return Walk(table, timing, simulation).run();
}

}  // namespace stagger::sim
