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
  /// Covers a slot's reductions and what the SM does beside or after them: from where it is free to
  /// a compute phase's end, or to the end of the lane's last epilogue, without a gap.
  void cover(Span work, Span reduction, Span reduction_kv) {
    const bool first = reduction.start > work.start;
    const bool second = !first && reduction_kv.start > work.start;
    if (first) cover(work);
    reduce(reduction);
    if (second) cover(work);
    if (reduction_kv.start >= 0) reduce(reduction_kv);
    if (!first && !second) cover(work);
  }
};

/// The SM's clock after a lane.
SmClock after(SmClock clock, const Played& played, Lane lane) {
  // Of the slot before: its reductions are not covered yet, as the SM may go on while they wait.
  Span reduce;
  Span reduce_kv;
  Span epilogue;
  played.each_slot(lane, [&](const PlayedSlot& slot) {
    if (epilogue.start < 0) {
      clock.cover({.start = slot.launch.start, .end = slot.compute.end});
    } else {
      clock.cover({.start = epilogue.start, .end = slot.compute.end}, reduce, reduce_kv);
    }
    reduce = slot.reduce;
    reduce_kv = slot.reduce_kv;
    epilogue = slot.epilogue;
  });
  if (epilogue.start >= 0) clock.cover(epilogue, reduce, reduce_kv);
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
    clock = after(clock, played, lane);
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
