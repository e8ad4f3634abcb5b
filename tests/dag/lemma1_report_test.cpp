// Everything that the report of Lemma 1 holds, against counting along the lanes.

#include "dag/dag.hpp"
#include "dag/lemma1.hpp"
#include "dag/verify.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

namespace stagger::dag {
namespace {

/// A reduction: where it is on its lane, and when without dependency edges.
struct Reduction {
  Task task;
  std::int64_t place = 0;       ///< among its lane's reductions
  std::int64_t depth_from = 0;  ///< of its end, in edges along the lane
  std::int64_t depth_to = 0;    ///< of its start
  Ticks start = 0;
  Ticks end = 0;
  Ticks lane_left = 0;  ///< from its start to the lane's end
};

/// A lock, dQ's (0, head, q) or dK and dV's (1, KV head, kv), then the rank.
using Key = std::tuple<int, std::int32_t, std::int32_t, std::int32_t>;

struct Lanes {
  std::map<Key, Reduction> reductions;
  Ticks longest = 0;
};

/// In the chain model, all lanes resident, the SM staying with a chain to its end.
Lanes lanes_of(const Table& table, const Timing& timing) {
  Lanes lanes;
  const Problem& problem = table.problem;
  const bool ordered = problem.combine == Combine::ordered;
  for (Lane lane{0}; lane.value < table.lanes(); ++lane) {
    Ticks now = 0;
    std::int64_t depth = 0;
    std::int64_t place = 0;
    std::vector<Key> of_lane;
    const auto add = [&](const Key& key, const Task& task, Ticks ticks) {
      Reduction reduction{.task = task, .place = place++, .depth_to = depth, .start = now};
      now += ticks;
      reduction.depth_from = ++depth;
      reduction.end = now;
      lanes.reductions[key] = reduction;
      of_lane.push_back(key);
    };
    for (std::int64_t slot = table.begin_of(lane); slot < table.end_of(lane); ++slot) {
      const auto& [task, rank] = table.slots[slot];
      if (table.begins_chain(lane, slot) && timing.launch > 0) {
        now += timing.launch;
        ++depth;
      }
      now += timing.compute_of(problem, task);
      ++depth;
      add({0, task.head.value, task.q.value, rank}, task, timing.reduce);
      if (!table.ends_chain(lane, slot)) continue;
      if (ordered) {
        ++depth;  // its turn
        add({1, problem.kv_head_of(task.head).value, task.kv.value, table.dkv_rank(task)}, task,
            timing.reduce_kv);
      }
      now += timing.epilogue;
      depth += timing.epilogue > 0 ? 1 : 0;
    }
    for (const Key& key : of_lane)
      lanes.reductions[key].lane_left = now - lanes.reductions[key].start;
    lanes.longest = std::max(lanes.longest, now);
  }
  return lanes;
}

/// Whether `edge` is the dependency from one reduction to the next, by places or by times.
void check_edge(const DependencyEdge& edge, const Key& key, const Reduction& from,
                const Reduction& to) {
  REQUIRE(edge.from == from.task);
  REQUIRE(edge.to == to.task);
  REQUIRE(edge.dkv == (std::get<0>(key) == 1));
}

void check_report(const Table& table, const Timing& timing, const Lemma1& lemma,
                  std::int64_t limit) {
  const Lanes lanes = lanes_of(table, timing);
  std::int64_t edges = 0;
  std::size_t violations = 0;
  std::int64_t harmful = 0;
  for (const auto& [name, reduction] : lanes.reductions) {
    const auto& key = name;  // clang 14 captures no structured bindings
    const Reduction& to = reduction;
    auto before = key;
    if (--std::get<3>(before) < 0) continue;
    const Reduction& from = lanes.reductions.at(before);
    ++edges;
    if (from.place >= to.place && ++violations <= at(limit)) {
      const DependencyEdge& edge = lemma.violations.at(violations - 1);
      check_edge(edge, key, from, to);
      REQUIRE(edge.depth_from == 2 * from.place + 2);
      REQUIRE(edge.depth_to == 2 * to.place + 1);
    }
    const Ticks earliest = from.end + timing.latency;
    const Ticks latest = lanes.longest - to.lane_left;
    if (!lemma.harmful || earliest <= latest) continue;
    ++harmful;
    const auto found =
        std::find_if(lemma.harmful->begin(), lemma.harmful->end(), [&](const DependencyEdge& edge) {
          return edge.to == to.task && edge.dkv == (std::get<0>(key) == 1);
        });
    if (found == lemma.harmful->end()) {
      REQUIRE(std::ssize(*lemma.harmful) == limit);
      continue;
    }
    check_edge(*found, key, from, to);
    REQUIRE(found->depth_from == from.depth_from);
    REQUIRE(found->depth_to == to.depth_to);
    REQUIRE(found->earliest_from == earliest);
    REQUIRE(found->latest_to == latest);
  }
  REQUIRE(lemma.dependency_edges == edges);
  REQUIRE(lemma.violation_count == static_cast<std::int64_t>(violations));
  REQUIRE(lemma.monotone == (violations == 0));
  REQUIRE(lemma.violations.size() == std::min(violations, at(limit)));
  REQUIRE(lemma.harmful.has_value() == !lemma.premise);
  REQUIRE(lemma.harmful_count == harmful);
  if (lemma.harmful) REQUIRE(std::ssize(*lemma.harmful) == std::min(harmful, limit));
}

TEST_CASE("edges, violations and harmful edges are what counting along the lanes gives") {
  test::Random random(test::seed(49));
  std::int64_t premises = 0;
  std::int64_t harmful = 0;
  std::int64_t beyond_limit = 0;
  for (int round = 0; round < 3'000; ++round) {
    Problem problem = test::any_problem(random, 3);
    if (random.chance(2)) problem = test::with_random_groups(random, std::move(problem), 3);
    Table table = test::random_live_table(random, problem, Dispatch::static_);
    if (problem.combine == Combine::ordered && random.chance(2))
      test::shuffle_dkv_ranks(random, table);
    Timing timing = test::random_timing(random, problem);
    timing.model = Model::chain;
    timing.release = Release::immediate;
    timing.residency = 0;
    timing.reduce_kv = random.between(0, 4);
    if (verify(table, timing).verdict != Verdict::ok) continue;
    const std::int64_t limit = random.between(0, 6);
    CAPTURE(round, limit, problem.heads, problem.span, problem.sms, timing.latency, timing.launch,
            timing.epilogue, timing.reduce_kv);
    const Lemma1 lemma = check_lemma1(table, timing, limit, true);
    check_report(table, timing, lemma, limit);
    premises += lemma.premise ? 1 : 0;
    harmful += lemma.harmful_count > 0 ? 1 : 0;
    beyond_limit += lemma.violation_count > limit ? 1 : 0;
  }
  CHECK(premises > 100);
  CHECK(harmful > 300);
  CHECK(beyond_limit > 100);
}

/// One KV tile, a group of heads with a chain each, in order.
std::string why_of_parts(const Timing& timing) {
  Table table;
  table.problem = make_problem(make_mask("full"), {1, 1}, {}, 2, 2,
                               {.heads_kv = 1, .span = 1, .combine = Combine::ordered});
  for (std::int32_t head = 0; head < 2; ++head) {
    table.slots.push_back({{Head{head}, KvTile{0}, QTile{0}}, 0});
    table.end_lane();
  }
  return check_lemma1(table, timing, 10, true).premise_fails;
}

TEST_CASE("parts that are combined in order have a premise of their own") {
  CHECK(why_of_parts({.reduce_kv = 1}).empty());
  CHECK(why_of_parts({.reduce_kv = 0}) == "an edge of a chain weighs 0");
  CHECK(why_of_parts({.reduce_kv = 1, .reduce_kv_async = true}) ==
        "beside a writer of dK and dV a lane is no chain");
}

TEST_CASE("a graph is cheap up to its tasks, and to its tasks times the rounds of its lanes") {
  const auto cheap = [](std::int64_t tasks, std::int32_t lanes, std::int32_t sms,
                        std::int32_t residency) {
    Table table;
    table.problem.sms = sms;
    table.slots.resize(tasks);
    for (std::int32_t lane = 0; lane < lanes; ++lane)
      table.end_lane();
    return is_graph_cheap(table, {.residency = residency});
  };
  CHECK(cheap(100'000, 8, 8, 0));
  CHECK_FALSE(cheap(100'001, 8, 8, 0));
  CHECK(cheap(20'000, 999, 1, 0));  // 1,000 rounds
  CHECK_FALSE(cheap(20'001, 999, 1, 0));
  CHECK_FALSE(cheap(20'000, 1'000, 1, 0));
  CHECK(cheap(20'000, 1'998, 8, 2));
  CHECK_FALSE(cheap(20'000, 2'000, 8, 2));
}

}  // namespace
}  // namespace stagger::dag
