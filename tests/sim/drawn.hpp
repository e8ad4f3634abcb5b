#pragma once

#include "sim/critical_path.hpp"
#include "sim/overlay.hpp"
#include "sim/simulate.hpp"
#include "sim/timeline.hpp"
#include "tests/support/random.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

namespace stagger::sim {

/// A random table that runs to its end with all lanes resident, two times in three with groups
/// whose parts are added in order.
inline Table drawn_live_table(test::Random& random, std::int64_t most) {
  Problem problem = test::random_problem(random, most);
  if (!random.chance(3)) problem = test::with_random_groups(random, std::move(problem), 3);
  if (problem.group_parts() > 1) problem.combine = Combine::ordered;
  const Dispatch dispatch = random.chance(2) ? Dispatch::static_ : Dispatch::in_order;
  return test::random_live_table(random, problem, dispatch);
}

/// A random table, played: some hang, some have a bound, dQ's memory, or parts added in order.
inline Timeline drawn_timeline(test::Random& random, std::int64_t most) {
  const Table table = random.chance(2)
                          ? drawn_live_table(random, most)
                          : test::drawn_table(random, most, [&] { return !random.chance(2); });
  const Timing timing =
      test::with_random_combination(random, test::random_timing(random, table.problem));
  const Simulation simulation = simulate(table, timing);
  const CriticalPath path =
      simulation.complete ? critical_path(table, timing, simulation) : CriticalPath{};
  Timeline drawn = timeline(table, timing, simulation, path);
  drawn.title = "drawn";
  if (random.chance(2)) drawn.lower_bound = random.between(0, drawn.makespan);
  if (random.chance(2)) {
    drawn.dq = DqMemory{.tile_bytes = random.between(1, 20), .l2_bytes = random.between(1, 60)};
  }
  return drawn;
}

/// Two or three of them, the last one measured, as one.
inline Timeline drawn_overlay(test::Random& random, std::int64_t most) {
  std::vector<Timeline> timelines;
  for (std::int64_t count = random.between(2, 3); count > 0; --count)
    timelines.push_back(drawn_timeline(random, most));
  timelines.back().clock = "ns";
  timelines.back().device = "a device";
  return overlay(std::move(timelines), random.between(1, 3));
}

}  // namespace stagger::sim
