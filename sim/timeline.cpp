#include "sim/timeline.hpp"

#include <algorithm>
#include <set>
#include <tuple>

namespace stagger::sim {
namespace {

std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

class Drawing {
 public:
  Drawing(const Table& table, const Timing& timing, const Simulation& simulation)
      : table_(table),
        timing_(timing),
        simulation_(simulation),
        overlap_(timing.model == Model::overlap),
        drains_(overlap_ && table.dispatch == Dispatch::static_) {
    timeline_.sms = resident_lanes(table.problem, timing.residency);
    timeline_.heads = table.problem.heads;
    timeline_.makespan = end();
    timeline_.title = table.name;
  }

  Timeline run() {
    for (Lane lane{0}; lane.value < table_.lanes(); ++lane) {
      if (simulation_.lanes[at(lane.value)].start >= 0) draw_lane(lane);
    }
    std::sort(timeline_.intervals.begin(), timeline_.intervals.end(), precedes);
    return std::move(timeline_);
  }

 private:
  /// Where the last interval ends: after the makespan if a table hangs while a compute phase runs.
  [[nodiscard]] Ticks end() const {
    Ticks last = simulation_.makespan;
    for (std::int64_t slot = 0; slot < std::ssize(table_.slots); ++slot) {
      if (simulation_.compute_start[at(slot)] >= 0) last = std::max(last, compute_end(slot));
    }
    return last;
  }

  [[nodiscard]] Ticks compute_end(std::int64_t slot) const {
    return simulation_.compute_start[at(slot)] +
           timing_.compute_of(table_.problem, table_.slots[at(slot)].task);
  }

  void draw_lane(Lane lane) {
    const std::int64_t begin = table_.lane_begin[at(lane.value)];
    const std::int64_t end = table_.lane_begin[at(lane.value) + 1];
    sm_ = simulation_.lanes[at(lane.value)].sm;
    for (std::int64_t slot = begin; slot < end; ++slot) {
      const Ticks compute = simulation_.compute_start[at(slot)];
      const Ticks reduce = simulation_.reduce_start[at(slot)];
      if (compute < 0) return;  // the lane hangs before this slot
      if (begins_chain(&table_.slots[at(begin)], &table_.slots[at(slot)])) {
        add(Phase::launch, slot, compute - timing_.launch, compute);
      }
      add(Phase::compute, slot, compute, compute_end(slot));
      Ticks handed = compute_end(slot);
      if (overlap_ && slot > begin) {
        handed = std::max(handed, simulation_.reduce_start[at(slot) - 1] + timing_.reduce);
      }
      add(Phase::wait, slot, handed, reduce < 0 ? timeline_.makespan : reduce);
      if (reduce < 0) return;
      add(Phase::reduce, slot, reduce, reduce + timing_.reduce);
      if (slot + 1 == end || begins_chain(&table_.slots[at(begin)], &table_.slots[at(slot) + 1])) {
        const Ticks freed = drains_ ? handed : reduce + timing_.reduce;
        add(Phase::epilogue, slot, freed, freed + timing_.epilogue);
      }
    }
  }

  void add(Phase phase, std::int64_t slot, Ticks start, Ticks end) {
    if (start >= end) return;
    const Slot& of = table_.slots[at(slot)];
    timeline_.intervals.push_back(
        {.sm = sm_, .task = of.task, .phase = phase, .start = start, .end = end, .rank = of.rank});
  }

  const Table& table_;
  const Timing& timing_;
  const Simulation& simulation_;
  bool overlap_;
  bool drains_;
  Sm sm_;
  Timeline timeline_;
};

void mark(const CriticalPath& path, Timeline& timeline) {
  std::set<std::tuple<Task, Phase>> critical;
  for (const CriticalStep& step : path.steps)
    critical.emplace(step.task, step.phase);
  for (Interval& interval : timeline.intervals) {
    interval.critical =
        interval.phase != Phase::wait && critical.contains({interval.task, interval.phase});
  }
}

}  // namespace

Timeline timeline(const Table& table, const Timing& timing, const Simulation& simulation,
                  const CriticalPath& path) {
  Timeline drawn = Drawing(table, timing, simulation).run();
  mark(path, drawn);
  return drawn;
}

}  // namespace stagger::sim
