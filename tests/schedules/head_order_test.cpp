// The order of a chain's heads where it is searched for: head by head, or all heads of a Q tile.

#include "dag/verify.hpp"
#include "schedules/schedule.hpp"
#include "sim/simulate.hpp"
#include "tests/sim/cost.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/naive.hpp"
#include "tests/support/random.hpp"

#include <string>
#include <string_view>

namespace stagger::schedules {
namespace {

/// Whether every chain's tasks are together on a lane, its heads one after the other.
bool goes_head_by_head(const Table& table) {
  std::int64_t runs = 0;  // of one head and KV tile
  for (Lane lane{0}; lane.value < table.lanes(); ++lane) {
    for (std::int64_t slot = table.begin_of(lane); slot < table.end_of(lane); ++slot) {
      const Task& task = table.slots[slot].task;
      if (slot == table.begin_of(lane)) {
        ++runs;
        continue;
      }
      const Task& before = table.slots[slot - 1].task;
      if (before.kv == task.kv && before.head == task.head) continue;
      ++runs;
      const bool chain_goes_on = table.problem.same_chain(before, task);
      if (chain_goes_on && task.head.value != before.head.value + 1) return false;
    }
  }
  std::int64_t chains = 0;
  for (Part part{0}; part.value < table.problem.parts(); ++part.value) {
    for (KvTile kv{0}; kv.value < table.problem.kv_tiles(); ++kv)
      chains += table.problem.chain_length(part, kv) > 0 ? 1 : 0;
  }
  return runs == chains * table.problem.span;
}

TEST_CASE("head-major order that is searched for goes head by head, and never hangs") {
  test::Random random(test::seed(142));
  std::int64_t tables = 0;
  for (int round = 0; round < 400; ++round) {
    const Problem problem = test::with_random_groups(random, test::any_problem(random, 5), 4);
    if (problem.span == 1) continue;
    const Timing timing = test::random_timing(random, problem);
    const bool may_hang = timing.release == Release::delayed;
    for (const char* text : {"windowed:order=head-major", "windowed:heads=2,order=head-major",
                             "balanced:order=head-major"}) {
      const Selection selection = select(text);
      CAPTURE(round, text, problem.heads, problem.heads_kv, problem.span, problem.kv_tiles(),
              problem.q_tiles(), problem.sms);
      if (why_unsupported(selection, problem)) continue;
      const Table table = build(selection, problem, timing);
      const dag::Verdict verdict = dag::verify(table, timing).verdict;
      REQUIRE(verdict != dag::Verdict::invalid);
      REQUIRE(goes_head_by_head(table));
      // Windows have a table that is safe where every list hangs.
      if (may_hang && std::string_view(text) == "balanced:order=head-major" &&
          verdict != dag::Verdict::ok) {
        continue;
      }
      REQUIRE(verdict == dag::Verdict::ok);
      REQUIRE(table.problem.span == problem.span);
      REQUIRE(test::naive_makespan(table, timing) == sim::simulate(table, timing).makespan);
      ++tables;
    }
  }
  CHECK(tables > 100);
}

TEST_CASE("windowed's name in head-major order makes its table again") {
  const Problem problem = make_problem(make_mask("causal"), {12, 12}, {}, 24, 20, {.heads_kv = 6});
  REQUIRE(problem.span == 4);
  const Timing timing{.compute = 41, .reduce = 12, .latency = 14};
  const Table table = build(select("windowed:order=head-major"), problem, timing);
  CHECK(table.name.find(",order=head-major") != std::string::npos);
  const Table again = build(select(table.name), problem, timing);
  CHECK(again.slots == table.slots);
  // In windows of parts: no chain of the second window begins before the last of the first.
  const Table two = build(select("windowed:heads=2,order=head-major"), problem, timing);
  const sim::Simulation simulation = sim::simulate(two, timing);
  REQUIRE(simulation.complete);
  const auto first_window = [&](const Task& task) { return task.head.value < 2 * 4; };
  for (Lane lane{0}; lane.value < two.lanes(); ++lane) {
    bool left = false;
    for (std::int64_t slot = two.begin_of(lane); slot < two.end_of(lane); ++slot) {
      const bool inside = first_window(two.slots[slot].task);
      CHECK_FALSE((inside && left));
      left = left || !inside;
    }
  }
}

/// Of chains that share K and V, with a memory in every other round whose L2 holds a few dQ tiles.
struct Drawn {
  Problem problem;
  Timing timing;
};

Drawn drawn(test::Random& random, int round) {
  Drawn one;
  one.problem = test::with_random_groups(random, test::any_problem(random, 5), 4);
  one.timing = test::random_timing(random, one.problem);
  if (round % 2 == 1) {
    one.timing.memory =
        Memory{.l2 = 96, .rate = 3, .tile = {.q = 8, .dq = 8, .kv = 16, .gradient = 16}};
  }
  return one;
}

TEST_CASE("the order that is searched for is the one that costs less, q-major of equals") {
  test::Random random(test::seed(143));
  int head_by_head = 0;
  int q_major_is_less = 0;
  for (int round = 0; round < 300; ++round) {
    const auto [problem, timing] = drawn(random, round);
    if (problem.span == 1) continue;
    for (const std::string name : {"windowed", "balanced"}) {
      CAPTURE(round, name, problem.heads, problem.heads_kv, problem.span);
      // A stop that is asked and never comes changes nothing.
      const Stop stop = random.chance(2) ? Stop([] { return false; }) : Stop();
      const Table best = build(select(name), problem, timing, stop);
      const Table q_major = build(select(name + ":order=q-major"), problem, timing);
      const Table head_major = build(select(name + ":order=head-major"), problem, timing);
      const Ticks one = sim::cost_by_plays(q_major, timing);
      const Ticks other = sim::cost_by_plays(head_major, timing);
      const bool takes_other = other >= 0 && (one < 0 || other < one);
      const Table& expected = takes_other ? head_major : q_major;
      REQUIRE(best.slots == expected.slots);
      REQUIRE(best.lane_begin == expected.lane_begin);
      REQUIRE(best.name == expected.name);
      REQUIRE(best.name.find(takes_other ? "order=head-major" : "order=q-major") !=
              std::string::npos);
      REQUIRE(build(select(best.name), problem, timing).slots == best.slots);
      head_by_head += takes_other ? 1 : 0;
      q_major_is_less += one >= 0 && one < other ? 1 : 0;
    }
  }
  CHECK(head_by_head > 10);
  CHECK(q_major_is_less > 10);
}

TEST_CASE("chains of one head have no order, and their table's name says none") {
  const Problem problem = make_problem(make_mask("causal"), {6, 6}, {}, 4, 3);
  for (const std::string name : {"windowed", "balanced"}) {
    const Table table = build(select(name), problem);
    CHECK(table.name.find("order") == std::string::npos);
    CHECK(build(select(name + ":order=q-major"), problem).slots == table.slots);
    CHECK(why_unsupported(select(name + ":order=head-major"), problem).has_value());
    CHECK_FALSE(why_unsupported(select(name + ":order=best"), problem).has_value());
  }
  CHECK_THROWS_WITH(select("spt:order=best"),
                    Catch::Matchers::Contains("'best' is not q-major or head-major"));
}

TEST_CASE("a search for the order that is stopped has q-major's table") {
  const Problem problem = make_problem(make_mask("causal"), {6, 6}, {}, 8, 5, {.heads_kv = 2});
  REQUIRE(problem.span > 1);
  const Table table = build(select("windowed"), problem, {}, [] { return true; });
  CHECK(dag::verify(table, {}).verdict == dag::Verdict::ok);
  CHECK(table.name.find("order=q-major") != std::string::npos);
}

}  // namespace
}  // namespace stagger::schedules
