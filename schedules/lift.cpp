// Lifting: a table of parts, whose tasks stand for those of `span` heads, becomes a table of heads.
//
//   a lane of parts      q-major, span 2            head-major, span 2 (a chain of one run)
//   0 1 2 | 4 3          0 0' 1 1' 2 2' | 4 4' 3 3'   0 1 2 0' 1' 2' | 4 3 4' 3'
//
// q-major puts round t of the parts at rounds span*t + a, a = 0 ... span-1. Two tasks of one
// (head, q) come from two tasks of one (part, q), at the same a: what was in different rounds stays
// so, and what came before stays before. So a table without collisions has none, and its makespan
// is span times as long in rounds; and what does not hang does not hang, with any dispatch,
// residency and release: whenever a task of the parts can run, its heads can, one after the other.

#include "schedules/lift.hpp"

#include "core/huge_pages.hpp"

#include <algorithm>
#include <utility>

namespace stagger::schedules {
namespace {

/// The slot behind the run that begins at `begin`.
std::int64_t end_of_run(const Table& parts, Lane lane, std::int64_t begin, HeadOrder order,
                        bool (*begins_run)(const Table&, std::int64_t)) {
  std::int64_t end = begin + 1;
  if (order == HeadOrder::q_major) return end;
  while (end < parts.end_of(lane) && !parts.begins_chain(lane, end) &&
         (begins_run == nullptr || !begins_run(parts, end))) {
    ++end;
  }
  return end;
}

}  // namespace

Table lift(Table parts, const Problem& problem, HeadOrder order,
           bool (*begins_run)(const Table& parts, std::int64_t slot)) {
  if (problem.span == 1) {  // as below, without a copy
    parts.problem = problem;
    return parts;
  }
  Table table{.name = parts.name,
              .problem = problem,
              .dispatch = parts.dispatch,
              .slots = {},
              .lane_begin = {0},
              .dkv_ranks = parts.dkv_ranks};
  reserve_filled(table.slots, at(problem.tasks()));
  for (Lane lane{0}; lane.value < parts.lanes(); ++lane) {
    for (std::int64_t begin = parts.begin_of(lane); begin < parts.end_of(lane);) {
      const std::int64_t end = end_of_run(parts, lane, begin, order, begins_run);
      for (std::int32_t member = 0; member < problem.span; ++member) {
        for (std::int64_t slot = begin; slot < end; ++slot) {
          const auto& [task, rank] = parts.slots[slot];
          const Head head{task.head.value * problem.span + member};
          table.slots.push_back({{head, task.kv, task.q}, rank});
        }
      }
      begin = end;
    }
    table.end_lane();
  }
  return table;
}

Timing timing_of_parts(Timing timing, std::int32_t span) {
  const Ticks others = span - 1;
  const auto lengthen = [&](Ticks compute) {
    const Ticks step =
        timing.model == Model::overlap ? std::max(compute, timing.reduce) : compute + timing.reduce;
    return others * step + compute;
  };
  if (timing.compute_partial) timing.compute_partial = lengthen(*timing.compute_partial);
  timing.compute = lengthen(timing.compute);
  if (timing.memory) {
    timing.memory->tile.q *= span;
    timing.memory->tile.dq *= span;
  }
  return timing;
}

}  // namespace stagger::schedules
