#include "schedules/search/windows.hpp"

#include "dag/bounds.hpp"
#include "dag/verify.hpp"
#include "schedules/schedule.hpp"
#include "sim/simulate.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random.hpp"

#include <algorithm>
#include <vector>

namespace stagger::search {
namespace {

bool never() {
  return false;
}

/// Whether every lane works on its windows one after the other.
bool in_windows(const Table& table, std::int32_t heads) {
  for (Lane lane{0}; lane.value < table.lanes(); ++lane) {
    const auto slots = table.lane(lane);
    const bool sorted =
        std::is_sorted(slots.begin(), slots.end(), [&](const Slot& a, const Slot& b) {
          return a.task.head.value / heads < b.task.head.value / heads;
        });
    if (!sorted) return false;
  }
  return true;
}

/// The most windows that are between their first reduction and their last one at a time.
std::int64_t windows_in_flight(const Table& table, const Timing& timing, std::int32_t heads) {
  const sim::Simulation played = sim::simulate(table, timing);
  struct Span {
    Ticks begin = INT64_MAX;
    Ticks end = 0;
  };
  std::vector<Span> spans(static_cast<std::size_t>((table.problem.heads + heads - 1) / heads));
  for (std::size_t slot = 0; slot < table.slots.size(); ++slot) {
    Span& span = spans[static_cast<std::size_t>(table.slots[slot].task.head.value / heads)];
    span.begin = std::min(span.begin, played.reduce_start[slot]);
    span.end = std::max(span.end, played.reduce_start[slot] + timing.reduce);
  }
  std::int64_t most = 0;
  for (const Span& at : spans) {
    most = std::max<std::int64_t>(most, std::count_if(spans.begin(), spans.end(), [&](auto& span) {
                                    return span.begin <= at.begin && at.begin < span.end;
                                  }));
  }
  return most;
}

TEST_CASE("windows make whole tables that run in every timing model, window after window") {
  test::Random random(test::seed(81));
  for (int round = 0; round < 500; ++round) {
    const Problem problem = test::random_problem(random, 6);
    const Timing timing = test::random_timing(random, problem);
    const auto heads = static_cast<std::int32_t>(random.between(1, 5));
    CAPTURE(round, heads, problem.heads, problem.sms, timing.residency);
    const Table table = windowed(problem, timing, {.heads = heads, .effort = 0, .stop = never});
    REQUIRE(dag::verify(table, timing).verdict == dag::Verdict::ok);
    REQUIRE(sim::simulate(table, timing).complete);
    REQUIRE(table.lanes() == problem.sms);
    REQUIRE(table.problem.sms == problem.sms);
    REQUIRE(in_windows(table, heads));
  }
}

TEST_CASE("the longest lane of a window goes to the SM that has had least") {
  // SM 0  0 0 1 2 2
  // SM 1  0 1 1 2
  const Problem problem = make_problem(make_mask("causal"), {2, 2}, {}, 3, 2);
  const Table table = windowed(problem, {}, {.heads = 1, .effort = 0, .stop = never});
  const auto heads_of = [&](std::int32_t lane) {
    std::vector<std::int32_t> heads;
    for (const Slot& slot : table.lane(Lane{lane}))
      heads.push_back(slot.task.head.value);
    return heads;
  };
  CHECK(heads_of(0) == std::vector<std::int32_t>{0, 0, 1, 2, 2});
  CHECK(heads_of(1) == std::vector<std::int32_t>{0, 1, 1, 2});
  CHECK(sim::simulate(table, {}).makespan == 30);
}

TEST_CASE("a last window that is smaller has a table of its own") {
  const Problem problem = make_problem(make_mask("causal"), {6, 6}, {}, 5, 4);
  const Table table = windowed(problem, {}, {.heads = 2, .effort = 1, .stop = never});
  CHECK(dag::verify(table, {}).verdict == dag::Verdict::ok);
  CHECK(in_windows(table, 2));
  // 105 tasks on 4 SMs; with the pairs' table for the odd head too, chains would be twice in it.
  CHECK(sim::simulate(table, {}).makespan <= 6 * 30);
}

TEST_CASE("a window of all heads is what the search finds for all of them") {
  const Problem problem = make_problem(make_mask("causal"), {9, 9}, {}, 4, 5);
  const Timing timing{.model = Model::overlap, .compute = 7, .reduce = 3, .latency = 2};
  const Table one = windowed(problem, timing, {.heads = 4, .effort = 3, .stop = never});
  const Table more = windowed(problem, timing, {.heads = 1'000, .effort = 3, .stop = never});
  CHECK(one.slots == more.slots);
  CHECK(sim::simulate(one, timing).makespan ==
        sim::simulate(schedules::build(schedules::select("optimal"), problem, timing), timing)
            .makespan);
}

TEST_CASE("on 132 SMs windows cost little, and no more than two are in flight") {
  for (const auto& [kv_tiles, heads, window] :
       {std::tuple{16, 64, 16}, {32, 32, 8}, {32, 40, 16}, {64, 16, 4}}) {
    const Problem problem = make_problem(make_mask("causal"), {kv_tiles * 2, kv_tiles * 2},
                                         {.q = 1, .kv = 2}, heads, 132);
    const Timing timing{.model = Model::overlap, .compute = 10, .reduce = 4, .latency = 3};
    CAPTURE(kv_tiles, heads, window);
    const Table table = windowed(problem, timing, {.heads = window, .effort = 0, .stop = never});
    REQUIRE(dag::verify(table, timing).verdict == dag::Verdict::ok);
    const Ticks makespan = sim::simulate(table, timing).makespan;
    const Ticks bound = dag::lower_bounds(problem, timing, Dispatch::static_).best.ticks;
    CAPTURE(makespan, bound);
    CHECK(makespan <= bound + bound / 20);
    CHECK(in_windows(table, window));
    CHECK(windows_in_flight(table, timing, window) <= 2);
  }
}

}  // namespace
}  // namespace stagger::search
