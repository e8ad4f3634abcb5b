#include "sim/bubbles.hpp"

#include "core/error.hpp"
#include "sim/played.hpp"

#include <algorithm>
#include <string>

namespace stagger::sim {
namespace {

constexpr Ticks kLongest = Ticks{1} << 62;

/// One SM's phases in order of their starts.
struct SmClock {
  Ticks covered = 0;     ///< end of everything so far
  bool reduced = false;  ///< its first reduction has started
  Ticks startup = 0;
  Ticks order = 0;

  void cover(Span span) {
    if (span.start > covered) (reduced ? order : startup) += span.start - covered;
    covered = std::max(covered, span.end);
  }
  void reduce(Span span) {
    cover(span);
    reduced = true;
  }
  /// Covers what is left of a slot and what the SM does beside or after it: from where it is free
  /// to a compute phase's end, or to the end of the lane's last epilogue, without a gap.
  void cover(Span work, const PlayedSlot& slot) {
    bool covered_work = false;
    for (const Span& reduction : {slot.reduce, slot.reduce_kv}) {
      if (reduction.start < 0) continue;
      if (!covered_work && reduction.start > work.start) {
        cover(work);
        covered_work = true;
      }
      reduce(reduction);
    }
    if (!covered_work) cover(work);
  }
};

/// The SM's clock after a lane.
SmClock after(SmClock clock, const PlayedLane& lane) {
  PlayedSlot before;  // whose reductions are not covered yet: the SM may go on while they wait
  for (const PlayedSlot& slot : lane) {
    if (before.epilogue.start < 0) {
      clock.cover({.start = slot.launch.start, .end = slot.compute.end});
    } else {
      clock.cover({.start = before.epilogue.start, .end = slot.compute.end}, before);
    }
    before = slot;
  }
  if (before.epilogue.start >= 0) clock.cover(before.epilogue, before);
  return clock;
}

void expect_countable(const Played& played) {
  if (played.simulation().makespan > kLongest / played.sms()) {
    throw Error(ErrorKind::limit,
                "SM time would exceed 2^62 ticks: " + std::to_string(played.sms()) +
                    " SMs times a makespan of " + std::to_string(played.simulation().makespan));
  }
}

}  // namespace

Bubbles bubbles(const Table& table, const Timing& timing, const Simulation& simulation) {
  STAGGER_EXPECTS(simulation.complete);
  const Played played(table, timing, simulation);
  expect_countable(played);
  IndexVector<Sm, SmClock> clocks(played.sms());
  for (Lane lane{0}; lane.value < table.lanes(); ++lane) {
    SmClock& clock = clocks[played.run(lane).sm];
    clock = after(clock, played.lane(lane));
  }
  Bubbles sum;
  for (const SmClock& clock : clocks) {
    sum.startup += clock.startup;
    sum.order += clock.order;
    sum.tail += simulation.makespan - clock.covered;
  }
  const auto last = std::find_if(clocks.begin(), clocks.end(), [&](const SmClock& clock) {
    return clock.covered == simulation.makespan;
  });
  if (last != clocks.end()) {
    sum.last = {last->startup, last->order, last->covered - last->startup - last->order};
  }
  sum.busy = std::ssize(clocks) * simulation.makespan - sum.total();
  return sum;
}

}  // namespace stagger::sim
