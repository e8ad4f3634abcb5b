#include "sim/bubbles.hpp"

#include "core/error.hpp"

#include <algorithm>

namespace stagger::sim {
namespace {

std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

/// One SM's phases in order of their starts.
struct SmClock {
  Ticks covered = 0;     ///< end of everything so far
  bool reduced = false;  ///< its first reduction has started
  Ticks startup = 0;
  Ticks order = 0;
};

class Count {
 public:
  Count(const Table& table, const Timing& timing, const Simulation& simulation)
      : table_(table), timing_(timing), simulation_(simulation) {}

  Bubbles run() {
    std::vector<SmClock> clocks(at(resident_lanes(table_.problem, timing_.residency)));
    for (Lane lane{0}; lane.value < table_.lanes(); ++lane) {
      count_lane(lane, clocks[at(simulation_.lanes[at(lane.value)].sm.value)]);
    }
    for (const SmClock& clock : clocks) {
      sum_.startup += clock.startup;
      sum_.order += clock.order;
      sum_.tail += simulation_.makespan - clock.covered;
    }
    const auto last = std::find_if(clocks.begin(), clocks.end(), [&](const SmClock& clock) {
      return clock.covered == simulation_.makespan;
    });
    if (last != clocks.end()) {
      sum_.last = {last->startup, last->order, last->covered - last->startup - last->order};
    }
    sum_.busy = std::ssize(clocks) * simulation_.makespan - sum_.total();
    return sum_;
  }

 private:
  /// Phases are covered in order of their starts: in the overlap model reduction k runs beside
  /// compute k+1, which starts no later, but at a chain's end that waits for the writer.
  void count_lane(Lane lane, SmClock& clock) const {
    const std::int64_t begin = table_.lane_begin[at(lane.value)];
    const std::int64_t end = table_.lane_begin[at(lane.value) + 1];
    const bool overlap = timing_.model == Model::overlap;
    for (std::int64_t slot = begin; slot < end; ++slot) {
      const bool first = begins_chain(&table_.slots[at(begin)], &table_.slots[at(slot)]);
      // The epilogue of the chain before ends where this chain's launch starts.
      const Ticks before = first ? timing_.launch + (slot > begin ? timing_.epilogue : 0) : 0;
      const Ticks start = simulation_.compute_start[at(slot)] - before;
      const bool late = overlap && slot > begin;
      const bool drains = late && simulation_.reduce_start[at(slot) - 1] >= start;
      if (late && !drains) reduce(slot - 1, clock);
      const Ticks computing = timing_.compute_of(table_.problem, table_.slots[at(slot)].task);
      cover(start, simulation_.compute_start[at(slot)] + computing, clock);
      if (drains) reduce(slot - 1, clock);
      if (!overlap) reduce(slot, clock);
    }
    if (begin == end) return;
    if (overlap) reduce(end - 1, clock);
    cover(clock.covered, simulation_.lanes[at(lane.value)].end, clock);
  }

  void reduce(std::int64_t slot, SmClock& clock) const {
    const Ticks start = simulation_.reduce_start[at(slot)];
    cover(start, start + timing_.reduce, clock);
    clock.reduced = true;
  }

  static void cover(Ticks start, Ticks end, SmClock& clock) {
    if (start > clock.covered) {
      (clock.reduced ? clock.order : clock.startup) += start - clock.covered;
    }
    clock.covered = std::max(clock.covered, end);
  }

  const Table& table_;
  const Timing& timing_;
  const Simulation& simulation_;
  Bubbles sum_;
};

}  // namespace

Bubbles bubbles(const Table& table, const Timing& timing, const Simulation& simulation) {
  STAGGER_EXPECTS(simulation.complete);
  return Count(table, timing, simulation).run();
}

}  // namespace stagger::sim
