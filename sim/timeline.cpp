#include "sim/timeline.hpp"

#include "sim/played.hpp"

#include <algorithm>
#include <set>
#include <tuple>

namespace stagger::sim {
namespace {

/// Where the last interval ends: after the makespan if a table hangs while a compute phase runs.
Ticks end_of(const Played& played) {
  Ticks last = played.simulation().makespan;
  if (played.simulation().complete) return last;
  for (Lane lane{0}; lane.value < played.table().lanes(); ++lane) {
    played.each_slot(lane,
                     [&](const PlayedSlot& slot) { last = std::max(last, slot.compute.end); });
  }
  return last;
}

void put(Phase phase, const PlayedSlot& slot, Span span, Timeline& timeline) {
  timeline.intervals.push_back({.sm = slot.sm,
                                .task = slot.slot.task,
                                .phase = phase,
                                .start = span.start,
                                .end = span.end,
                                .rank = slot.slot.rank});
}

void add(Phase phase, const PlayedSlot& slot, Span span, Timeline& timeline) {
  if (span.start < span.end) put(phase, slot, span, timeline);
}

/// A reduction and the wait for its turn; neither if it is not due.
void add_reduction(Phase phase, const PlayedSlot& slot, Span wait, Span reduction,
                   Timeline& timeline) {
  if (wait.start < 0) return;
  if (reduction.start < 0) {
    put(Phase::wait, slot, {.start = wait.start, .end = timeline.makespan}, timeline);
    return;
  }
  add(Phase::wait, slot, wait, timeline);
  // Where a table hangs, reductions that take no time tell which waits ended.
  if (timeline.hangs) {
    put(phase, slot, reduction, timeline);
  } else {
    add(phase, slot, reduction, timeline);
  }
}

/// `dkv_rank`: of the chain that the slot ends.
void add(const PlayedSlot& slot, std::int32_t dkv_rank, Timeline& timeline) {
  add(Phase::launch, slot, slot.launch, timeline);
  add(Phase::compute, slot, slot.compute, timeline);
  add_reduction(Phase::reduce, slot, slot.wait, slot.reduce, timeline);
  PlayedSlot chain = slot;
  chain.slot.rank = dkv_rank;
  add_reduction(Phase::reduce_kv, chain, slot.wait_kv, slot.reduce_kv, timeline);
  add(Phase::epilogue, slot, slot.epilogue, timeline);
}

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
  const Played played(table, timing, simulation);
  Timeline timeline{.sms = played.sms(),
                    .heads = table.problem.heads,
                    .makespan = end_of(played),
                    .hangs = !simulation.complete,
                    .title = table.name};
  for (Lane lane{0}; lane.value < table.lanes(); ++lane) {
    played.each_slot(
        lane, [&](const PlayedSlot& slot) { add(slot, table.dkv_rank(slot.slot.task), timeline); });
  }
  std::sort(timeline.intervals.begin(), timeline.intervals.end(), precedes);
  mark(path, timeline);
  return timeline;
}

}  // namespace stagger::sim
