#include "dag/longest_path.hpp"

#include "dag/graph_files.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random.hpp"

namespace stagger::dag {
namespace {

/// Longest path between two nodes by following every path; -1 if there is none.
Ticks follow_all(const Dag& dag, std::int64_t from, std::int64_t to) {
  if (from == to) return 0;
  Ticks longest = -1;
  for (const Edge& edge : dag.edges) {
    if (edge.from != from) continue;
    const Ticks rest = follow_all(dag, edge.to, to);
    if (rest >= 0) longest = std::max(longest, edge.weight + rest);
  }
  return longest;
}

// Figure 2 of the paper: two KV tiles, two Q tiles, ranks by KV tile.
//
//   s --c--> C(0,0) --r--> R(0,0) --c--> C(0,1) --r--> R(0,1) --> t
//                             \                           \         .
//   s --c--> C(1,0) -----------+--r--> R(1,0) --c--> C(1,1)+--r--> R(1,1) --> t
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

TEST_CASE("figure 2, node by node") {
  const Dag dag = *build(figure2(), {.compute = 5, .reduce = 1});
  REQUIRE(dag.nodes.size() == 10);
  REQUIRE(std::ssize(dag.edges) - dag.first_dependency == 2);
  std::vector<std::int32_t> depths;
  for (const Node& node : dag.nodes)
    depths.push_back(node.depth);
  CHECK(depths == std::vector<std::int32_t>{0, 0, 1, 2, 3, 4, 1, 2, 3, 4});
  const PathTimes times = *path_times(dag);
  CHECK(times.length == 13);
  CHECK(times.earliest == std::vector<Ticks>{0, 13, 5, 6, 11, 12, 6, 7, 12, 13});
  CHECK(times.latest == std::vector<Ticks>{0, 13, 5, 6, 11, 12, 6, 7, 12, 13});
  const CriticalPath path = critical_path(figure2(), dag, times);
  CHECK(path.length == 13);
  CHECK(path.steps.front().phase == Phase::compute);
  CHECK(path.steps.back().end == 13);
}

TEST_CASE("earliest, latest and slack are what following every path gives") {
  test::Random random(13);
  std::int64_t graphs = 0;
  while (graphs < 150) {
    const Problem problem = test::any_problem(random, 3);
    if (problem.tasks() > 6) continue;
    const Dispatch dispatch = random.chance(2) ? Dispatch::static_ : Dispatch::in_order;
    const Table table = test::random_live_table(random, problem, dispatch);
    Timing timing = test::random_timing(random, problem);
    timing.residency = 0;
    timing.release = Release::immediate;
    if (table.lanes() > problem.sms) continue;
    const auto dag = build(table, timing);
    REQUIRE(dag.has_value());
    ++graphs;
    const PathTimes times = *path_times(*dag);
    REQUIRE(times.length == follow_all(*dag, kSource, kSink));
    for (std::int64_t node = 0; node < std::ssize(dag->nodes); ++node) {
      CAPTURE(graphs, node);
      REQUIRE(times.earliest[static_cast<std::size_t>(node)] == follow_all(*dag, kSource, node));
      REQUIRE(times.latest[static_cast<std::size_t>(node)] ==
              times.length - follow_all(*dag, node, kSink));
      REQUIRE(times.slack(node) >= 0);
    }
    for (const std::int64_t node : critical_nodes(*dag, times))
      REQUIRE(times.slack(node) == 0);
  }
}

TEST_CASE("a cycle is found, and its graph is written without times") {
  Table table = figure2();
  table.slots[0].rank = 1;  // SM 0 waits for SM 1 in Q tile 0, SM 1 for SM 0 in Q tile 1,
  table.slots[2].rank = 0;  // which comes later: no cycle
  CHECK(path_times(*build(table, {})).has_value());
  std::swap(table.slots[0], table.slots[1]);  // SM 0 now visits Q tile 1 first: still none
  CHECK(path_times(*build(table, {})).has_value());
  std::swap(table.slots[0], table.slots[1]);
  table.slots[0].task.q = QTile{0};
  table.slots[1].rank = 0;
  table.slots[2] = {{Head{0}, KvTile{1}, QTile{1}}, 1};
  table.slots[3] = {{Head{0}, KvTile{1}, QTile{0}}, 0};
  const Dag dag = *build(table, {});
  CHECK_FALSE(path_times(dag).has_value());
  CHECK(write_dot(table, dag).find("..") == std::string::npos);
}

TEST_CASE("graph files name every node and edge") {
  const Dag dag = *build(figure2(), {});
  const std::string dot = write_dot(figure2(), dag);
  CHECK(dot.find("C(0,1,1)") != std::string::npos);
  CHECK(dot.find("style=dashed") != std::string::npos);
  const std::string graphml = write_graphml(figure2(), dag);
  std::size_t edges = 0;
  for (std::size_t at = graphml.find("<edge "); at != std::string::npos;
       at = graphml.find("<edge ", at + 1)) {
    ++edges;
  }
  CHECK(edges == dag.edges.size());
}

}  // namespace
}  // namespace stagger::dag
