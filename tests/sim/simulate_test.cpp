#include "sim/simulate.hpp"

#include "dag/longest_path.hpp"
#include "sim/bubbles.hpp"
#include "sim/critical_path.hpp"
#include "sim/played.hpp"
#include "sim/timeline.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/naive.hpp"
#include "tests/support/random.hpp"

namespace stagger::sim {
namespace {

using Times = std::vector<Ticks>;

/// KV tile i on SM i, Q ascending, ranks by KV tile: 2 x 2.
Table figure2() {
  Table table;
  table.problem = make_problem(make_mask("full"), {2, 2}, {}, 1, 2);
  for (KvTile kv{0}; kv.value < 2; ++kv) {
    for (QTile q{0}; q.value < 2; ++q)
      table.slots.push_back({{Head{0}, kv, q}, kv.value});
    table.end_lane();
  }
  return table;
}

Times compute_starts(const Table& table, const Timing& timing, const Simulation& simulation) {
  Times starts;
  for (Lane lane{0}; lane.value < table.lanes(); ++lane) {
    Played(table, timing, simulation).each_slot(lane, [&](const PlayedSlot& slot) {
      starts.push_back(slot.compute.start);
    });
  }
  return starts;
}

TEST_CASE("chain model: compute waits for the SM's own reduction") {
  // SM 0  CCCCC R CCCCC R
  // SM 1  CCCCC . R CCCCC R
  const Timing timing{.compute = 5, .reduce = 1};
  const Simulation simulation = simulate(figure2(), timing);
  CHECK(simulation.complete);
  CHECK(compute_starts(figure2(), timing, simulation) == Times{0, 6, 0, 7});
  CHECK(simulation.reduce_start == Times{5, 11, 6, 12});
  CHECK(simulation.makespan == 13);
  CHECK(simulation.last_reduction == 13);
  const Bubbles bubbles = sim::bubbles(figure2(), timing, simulation);
  CHECK(bubbles.startup == 1);
  CHECK(bubbles.order == 0);
  CHECK(bubbles.tail == 1);
  CHECK(bubbles.busy == 24);
  CHECK(bubbles.last.startup + bubbles.last.order + bubbles.last.busy == simulation.makespan);
}

TEST_CASE("overlap model: the next compute starts at the hand-over") {
  // SM 0  C0 0-5, C1 5-10; R0 5-6, R1 10-11       SM 1  R0 waits until 6: 6-7; C1 5-10, R1 11-12
  const Timing timing{.model = Model::overlap, .compute = 5, .reduce = 1};
  const Simulation simulation = simulate(figure2(), timing);
  CHECK(compute_starts(figure2(), timing, simulation) == Times{0, 5, 0, 5});
  CHECK(simulation.reduce_start == Times{5, 10, 6, 11});
  CHECK(simulation.makespan == 12);
}

TEST_CASE("a partial tile has a compute phase of its own length") {
  // SM 0  C0 0-5 R0 5-6 C1 6-13 R1 13-14      SM 1, partial first: C0 0-7 R0 7-8 C1 8-13 R1 14-15
  Table table = figure2();
  table.problem = test::tiles_problem({"fp", "pf"}, 1, 2);
  const Timing timing{.compute = 5, .compute_partial = 7, .reduce = 1};
  const Simulation simulation = simulate(table, timing);
  CHECK(compute_starts(table, timing, simulation) == Times{0, 6, 0, 8});
  CHECK(simulation.reduce_start == Times{5, 13, 7, 14});
  CHECK(simulation.makespan == 15);
  const Bubbles bubbles = sim::bubbles(table, timing, simulation);
  CHECK(bubbles.busy == 28);
  CHECK(bubbles.order == 1);
}

TEST_CASE("latency, launch and epilogue") {
  const Timing timing{.compute = 5, .reduce = 1, .latency = 2, .launch = 3, .epilogue = 4};
  const Simulation simulation = simulate(figure2(), timing);
  CHECK(compute_starts(figure2(), timing, simulation) == Times{3, 9, 3, 12});
  CHECK(simulation.reduce_start == Times{8, 14, 11, 17});
  CHECK(simulation.last_reduction == 18);
  CHECK(simulation.makespan == 18 + 4);
}

TEST_CASE("delayed release: a lock lets go half a reduction into the next one") {
  // SM 0: R0 5-9, released when R1 (14-18) is half done: 16. R1, the chain's last, at 18.
  const Simulation simulation =
      simulate(figure2(), {.compute = 5, .reduce = 4, .release = Release::delayed});
  CHECK(simulation.reduce_start == Times{5, 14, 16, 25});
  CHECK(simulation.makespan == 29);
}

TEST_CASE("in-order dispatch: the SM that frees first takes the next CTA") {
  // Three CTAs of 1, 2 and 1 tasks on two SMs, no waits: CTA 2 starts when CTA 0 ends.
  Table table;
  table.problem = test::tiles_problem({"f...", ".ff.", "...f"}, 1, 2);
  table.dispatch = Dispatch::in_order;
  for (const auto& [kv, q] : {std::pair{0, 0}, std::pair{1, 1}, std::pair{1, 2}, std::pair{2, 3}}) {
    table.slots.push_back({{Head{0}, KvTile{kv}, QTile{q}}, 0});
    if (q != 1) table.end_lane();
  }
  const Simulation simulation = simulate(table, {.compute = 5, .reduce = 1});
  CHECK(simulation.lanes[Lane{2}].sm == Sm{0});
  CHECK(simulation.lanes[Lane{2}].start == 6);
  CHECK(simulation.makespan == 12);
}

TEST_CASE("random tables: simulator, graph and tick-by-tick play agree, deadlocks included") {
  test::Random random(20);
  std::int64_t finished = 0;
  std::int64_t hung = 0;
  for (int round = 0; round < 4'000; ++round) {
    const Problem problem = test::any_problem(random, 4);
    const Dispatch dispatch = random.chance(2) ? Dispatch::static_ : Dispatch::in_order;
    const Table table = random.chance(3) ? test::random_table(random, problem, dispatch)
                                         : test::random_live_table(random, problem, dispatch);
    const Timing timing = test::random_timing(random, problem);
    const Simulation simulation = simulate(table, timing);
    CAPTURE(round);
    if (round % 4 == 0) {
      const auto naive = test::naive_makespan(table, timing);
      REQUIRE(naive.has_value() == simulation.complete);
      if (naive) REQUIRE(*naive == simulation.makespan);
    }
    if (!simulation.complete) {
      ++hung;
      continue;
    }
    ++finished;
    const auto graph = dag::build(table, timing);
    REQUIRE(graph.has_value());
    const auto times = dag::path_times(*graph);
    REQUIRE(times.has_value());
    REQUIRE(times->length == simulation.makespan);
    Ticks covered = 0;
    for (const CriticalStep& step : critical_path(table, timing, simulation).steps) {
      REQUIRE(step.start == covered);
      covered = step.end;
    }
    REQUIRE(covered == simulation.makespan);
  }
  CHECK(finished > 2'000);
  CHECK(hung > 200);
}

TEST_CASE("a timeline holds every phase once, and an SM never does two things of a kind at once") {
  test::Random random(21);
  for (int round = 0; round < 1'000; ++round) {
    const Problem problem = test::any_problem(random, 4);
    const Dispatch dispatch = random.chance(2) ? Dispatch::static_ : Dispatch::in_order;
    const Table table = test::random_live_table(random, problem, dispatch);
    const Timing timing = test::random_timing(random, problem);
    const Simulation simulation = simulate(table, timing);
    if (!simulation.complete) continue;
    const Timeline timeline =
        sim::timeline(table, timing, simulation, critical_path(table, timing, simulation));
    CAPTURE(round);
    std::int64_t computed = 0;
    Ticks reduced = 0;
    std::vector<Ticks> busy(static_cast<std::size_t>(timeline.sms), 0);
    std::vector<Ticks> writer(static_cast<std::size_t>(timeline.sms), 0);
    for (const Interval& interval : timeline.intervals) {
      REQUIRE(interval.start < interval.end);
      REQUIRE(interval.end <= timeline.makespan);
      const bool reduces = interval.phase == Phase::reduce;
      if (interval.phase == Phase::wait || interval.phase == Phase::epilogue) continue;
      Ticks& free = (reduces ? writer : busy)[static_cast<std::size_t>(interval.sm.value)];
      REQUIRE(interval.start >= free);
      free = interval.end;
      computed += interval.phase == Phase::compute ? 1 : 0;
      reduced += reduces ? interval.end - interval.start : 0;
    }
    const auto computes =
        std::count_if(table.slots.begin(), table.slots.end(),
                      [&](const Slot& slot) { return timing.compute_of(problem, slot.task) > 0; });
    REQUIRE(computed == computes);
    REQUIRE(reduced == problem.tasks() * timing.reduce);
  }
}

TEST_CASE("a table that hangs has a timeline of what ran and open waits") {
  Table table = figure2();
  table.slots = {{{Head{0}, KvTile{0}, QTile{0}}, 0},
                 {{Head{0}, KvTile{0}, QTile{1}}, 1},
                 {{Head{0}, KvTile{1}, QTile{0}}, 1},
                 {{Head{0}, KvTile{1}, QTile{1}}, 0}};
  table.problem.sms = 1;  // two lanes, one SM: lane 0 waits for lane 1
  const Simulation simulation = simulate(table, {});
  CHECK_FALSE(simulation.complete);
  CHECK(simulation.lanes[Lane{1}].start == -1);
  const Timeline timeline = sim::timeline(table, {}, simulation);
  CHECK(timeline.intervals.back().task.q == QTile{1});
}

}  // namespace
}  // namespace stagger::sim
