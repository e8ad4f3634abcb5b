// Whole graph files, kept in tests/golden, of graphs that have every kind of node and edge.

#include "dag/graph_files.hpp"

#include "schedules/schedule.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/golden.hpp"

#include <string>

namespace stagger::dag {
namespace {

void check_files(const std::string& name, const Table& table, const Timing& timing) {
  const auto graph = build(table, timing);
  REQUIRE(graph.has_value());
  CHECK(test::golden_difference(name + ".dot", write_dot(table, *graph)) == "");
  CHECK(test::golden_difference(name + ".graphml", write_graphml(table, *graph)) == "");
}

TEST_CASE("graph files of a chain, of lanes that wait for an SM and of parts are as kept") {
  const Problem causal = make_problem(make_mask("causal"), {3, 3}, {}, 1, 2);
  check_files("graph", schedules::build(schedules::select("ascending"), causal), {});
  check_files("graph-overlap", schedules::build(schedules::select("spt"), causal),
              {.model = Model::overlap, .latency = 2, .launch = 3, .epilogue = 4});
  const Problem grouped = make_problem(make_mask("full"), {2, 2}, {}, 2, 2,
                                       {.heads_kv = 1, .span = 1, .combine = Combine::ordered});
  check_files("graph-parts", schedules::build(schedules::select("ascending"), grouped),
              {.reduce_kv = 3});
}

TEST_CASE("the graph file of a table that hangs has no times") {
  Table table = schedules::build(schedules::select("ascending"),
                                 make_problem(make_mask("full"), {2, 2}, {}, 1, 2));
  std::swap(table.slots[0].rank, table.slots[2].rank);
  std::swap(table.slots[2], table.slots[3]);
  check_files("graph-hangs", table, {});
}

}  // namespace
}  // namespace stagger::dag
