#include "dag/lemma1.hpp"

#include "dag/longest_path.hpp"
#include "schedules/schedule.hpp"
#include "sim/simulate.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random.hpp"

namespace stagger::dag {
namespace {

/// Isomorphic chains: every SM has the same number of tasks; ranks follow a random run.
Table random_isomorphic(test::Random& random) {
  const auto sms = static_cast<std::int32_t>(random.between(1, 5));
  const std::int64_t n_q = random.between(1, 5);
  const auto heads = static_cast<std::int32_t>(random.between(1, 3));
  Table table = test::random_live_table(
      random, make_problem(make_mask("full"), {n_q, sms}, {}, heads, sms), Dispatch::in_order);
  // Re-deal: head by head, each KV tile to a random SM of its own.
  std::vector<std::vector<Slot>> lanes(static_cast<std::size_t>(sms));
  for (std::int32_t head = 0; head < heads; ++head) {
    std::vector<std::int32_t> lane_of(lanes.size());
    for (std::size_t kv = 0; kv < lane_of.size(); ++kv)
      lane_of[kv] = static_cast<std::int32_t>(kv);
    random.shuffle(lane_of);
    for (const Slot& slot : table.slots) {
      if (slot.task.head.value == head) {
        lanes[at(lane_of[at(slot.task.kv)])].push_back(slot);
      }
    }
  }
  table.dispatch = Dispatch::static_;
  table.slots.clear();
  table.lane_begin = {0};
  for (const auto& lane : lanes) {
    table.slots.insert(table.slots.end(), lane.begin(), lane.end());
    table.end_lane();
  }
  return table;
}

/// Edges from s to the end of a task's reduction along its chain: two for every task up to it.
std::int64_t depth_after(const Table& table, const Task& task) {
  for (Lane lane{0}; lane.value < table.lanes(); ++lane) {
    for (std::int64_t slot = table.begin_of(lane); slot < table.end_of(lane); ++slot) {
      if (table.slots[slot].task == task) return 2 * (slot - table.begin_of(lane) + 1);
    }
  }
  return -1;
}

TEST_CASE("on isomorphic chains the critical path stays if and only if no edge decreases depth") {
  test::Random random(1);
  std::int64_t kept = 0;
  std::int64_t longer = 0;
  for (int round = 0; round < 20'000; ++round) {
    const Table table = random_isomorphic(random);
    const Timing timing{.compute = random.between(1, 5), .reduce = random.between(1, 5)};
    const auto graph = build(table, timing);
    REQUIRE(graph.has_value());
    const auto times = path_times(*graph);
    if (!times) continue;  // re-dealing may have made a cycle
    const Lemma1 lemma = check_lemma1(table, timing, 100, false);
    const Ticks chains = path_times(without_dependencies(*graph))->length;
    CAPTURE(round);
    REQUIRE(lemma.premise);
    REQUIRE(lemma.monotone == (times->length == chains));
    REQUIRE(lemma.violation_count == std::ssize(lemma.violations));
    for (const auto& violation : lemma.violations) {
      REQUIRE(violation.depth_from == depth_after(table, violation.from));
      REQUIRE(violation.depth_to == depth_after(table, violation.to) - 1);
      REQUIRE(violation.depth_from > violation.depth_to);
    }
    (lemma.monotone ? kept : longer) += 1;
  }
  CHECK(kept > 1'000);
  CHECK(longer > 1'000);
}

TEST_CASE("one edge alone is harmless if and only if earliest(u) <= latest(v)") {
  test::Random random(2);
  std::int64_t harmless = 0;
  std::int64_t harmful = 0;
  for (int round = 0; round < 3'000; ++round) {
    const Problem problem = test::any_problem(random, 4);
    const Table table = test::random_live_table(random, problem, Dispatch::static_);
    Timing timing = test::random_timing(random, problem);
    timing.residency = 0;
    timing.release = Release::immediate;
    const auto graph = build(table, timing);
    REQUIRE(graph.has_value());
    const Dag chains = without_dependencies(*graph);
    const Ticks length = path_times(chains)->length;
    std::int64_t longer = 0;
    for (std::size_t edge = static_cast<std::size_t>(graph->first_dependency);
         edge < graph->edges.size(); ++edge) {
      Dag with_one = chains;
      with_one.edges.push_back(graph->edges[edge]);
      const auto times = path_times(with_one);
      REQUIRE(times.has_value());
      longer += times->length > length ? 1 : 0;
      (times->length > length ? harmful : harmless) += 1;
    }
    const Lemma1 lemma = check_lemma1(table, timing, 1'000, true);
    CAPTURE(round, lemma.premise_fails);
    if (lemma.premise) {
      REQUIRE(lemma.violation_count == longer);
    } else {
      REQUIRE(lemma.harmful.has_value());
      REQUIRE(lemma.harmful_count == longer);
    }
  }
  CHECK(harmless > 1'000);
  CHECK(harmful > 1'000);
}

TEST_CASE("the premise says why it fails") {
  const Problem full = make_problem(make_mask("full"), {3, 3}, {}, 1, 3);
  Table table;
  table.problem = full;
  for (KvTile kv{0}; kv.value < 3; ++kv) {
    for (QTile q{0}; q.value < 3; ++q)
      table.slots.push_back({{Head{0}, kv, q}, kv.value});
    table.end_lane();
  }
  const auto why = [&](const Timing& timing) {
    return check_lemma1(table, timing, 10, true).premise_fails;
  };
  CHECK(why({}).empty());
  CHECK(why({.launch = 2, .epilogue = 1}).empty());
  CHECK(why({.model = Model::overlap}).find("overlap") != std::string::npos);
  CHECK(why({.reduce = 0}).find("weighs 0") != std::string::npos);
  CHECK(why({.compute_partial = 0}).find("weighs 0") != std::string::npos);
  CHECK(why({.latency = 1}).find("latency") != std::string::npos);
  CHECK(why({.release = Release::delayed}).find("late") != std::string::npos);
  CHECK(why({.residency = 2}).find("wait for an SM") != std::string::npos);
  Table partial = table;
  partial.problem = test::tiles_problem({"fpf", "fpf", "pff"}, 1, 3);
  CHECK(check_lemma1(partial, {.compute_partial = 5}, 10, true).premise);
  CHECK(check_lemma1(partial, {.compute_partial = 6}, 10, true)
            .premise_fails.find("partial tiles are at different places") != std::string::npos);
  partial.problem = test::tiles_problem({"fpf", "fpf", "fpf"}, 1, 3);
  CHECK(check_lemma1(partial, {.compute_partial = 6}, 10, true).premise);
  table.lane_begin[1] = 6;  // SM 0 takes two KV tiles, SM 1 none, SM 2 one
  table.lane_begin[2] = 6;
  CHECK(why({}).find("not isomorphic") != std::string::npos);
  table.lane_begin[1] = 1;
  CHECK(why({}) == "lanes are not isomorphic: one has 1 task, another 5");
}

TEST_CASE("a launch or an epilogue at different places of the lanes breaks the premise") {
  // SM 0: chains of 3 and 1 tasks; SM 1: of 2 and 2.
  const Table table = schedules::build(schedules::select("ascending"),
                                       test::tiles_problem({"fff", "ff.", "f..", "ff."}, 1, 2));
  const auto why = [&](const Timing& timing) {
    return check_lemma1(table, timing, 10, true).premise_fails;
  };
  CHECK(why({}).empty());
  CHECK(why({.launch = 1}) == "lanes are not isomorphic: chains begin and end at different places");
  CHECK(why({.epilogue = 1}) == why({.launch = 1}));
  CHECK(why({.launch = 1, .epilogue = 1}) == why({.launch = 1}));
}

}  // namespace
}  // namespace stagger::dag
