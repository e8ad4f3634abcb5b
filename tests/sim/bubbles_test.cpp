// Bubbles, against counting the ticks of every SM one after the other.

#include "sim/bubbles.hpp"

#include "sim/simulate.hpp"
#include "sim/timeline.hpp"
#include "tests/sim/drawn.hpp"
#include "tests/support/catch.hpp"

#include <algorithm>
#include <vector>

namespace stagger::sim {
namespace {

/// What one SM's ticks are.
struct Counted {
  Ticks startup = 0;
  Ticks order = 0;
  Ticks tail = 0;
  Ticks busy = 0;
};

Counted counted(const Timeline& timeline, Sm sm) {
  std::vector<bool> works(at(timeline.makespan), false);
  Ticks first_reduction = timeline.makespan;
  Ticks end = 0;
  for (const Interval& each : timeline.intervals) {
    if (each.sm != sm || each.phase == Phase::wait) continue;
    std::fill(works.begin() + each.start, works.begin() + each.end, true);
    end = std::max(end, each.end);
    const bool reduces = each.phase == Phase::reduce || each.phase == Phase::reduce_kv;
    if (reduces) first_reduction = std::min(first_reduction, each.start);
  }
  Counted sums;
  for (Ticks tick = 0; tick < timeline.makespan; ++tick) {
    (works[at(tick)]          ? sums.busy
     : tick >= end            ? sums.tail
     : tick < first_reduction ? sums.startup
                              : sums.order) += 1;
  }
  return sums;
}

TEST_CASE("bubbles are the ticks in which SMs do nothing, told apart by what came before") {
  test::Random random(test::seed(138));
  int in_order = 0;
  int beside = 0;
  for (int round = 0; round < 2'000; ++round) {
    const Table table = drawn_live_table(random, 4);
    Timing timing =
        test::with_random_combination(random, test::random_timing(random, table.problem));
    timing.reduce = std::max<Ticks>(timing.reduce, 1);
    timing.reduce_kv = std::max<Ticks>(timing.reduce_kv, 1);
    const Simulation simulation = simulate(table, timing);
    if (!simulation.complete) continue;
    const Timeline drawn = timeline(table, timing, simulation);
    Counted sum;
    std::vector<Counted> by_sm;
    for (Sm sm{0}; sm.value < drawn.sms; ++sm) {
      by_sm.push_back(counted(drawn, sm));
      sum.startup += by_sm.back().startup;
      sum.order += by_sm.back().order;
      sum.tail += by_sm.back().tail;
      sum.busy += by_sm.back().busy;
    }
    const Bubbles spent = bubbles(table, timing, simulation);
    CAPTURE(round, timing.reduce_kv_async, timing.model == Model::overlap);
    REQUIRE(spent.startup == sum.startup);
    REQUIRE(spent.order == sum.order);
    REQUIRE(spent.tail == sum.tail);
    REQUIRE(spent.busy == sum.busy);
    const auto last = std::ranges::find(by_sm, 0, &Counted::tail);
    REQUIRE(last != by_sm.end());
    REQUIRE(spent.last.startup == last->startup);
    REQUIRE(spent.last.order == last->order);
    REQUIRE(spent.last.busy == last->busy);
    in_order += table.problem.combine == Combine::ordered ? 1 : 0;
    beside += timing.reduce_kv_async && timing.model == Model::overlap ? 1 : 0;
  }
  CHECK(in_order > 200);
  CHECK(beside > 100);
}

}  // namespace
}  // namespace stagger::sim
