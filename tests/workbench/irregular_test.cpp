#include "workbench/calibration/irregular.hpp"

#include "dag/verify.hpp"
#include "sim/simulate.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random.hpp"

namespace stagger::workbench {
namespace {

TEST_CASE("irregular tables are legal, end, and are others for other seeds") {
  test::Random random(test::seed(93));
  for (int round = 0; round < 100; ++round) {
    const Problem problem = test::any_problem(random, 7);
    if (problem.tasks() == 0) continue;
    const auto seed = static_cast<std::uint64_t>(random.between(0, 1'000'000));
    const Table table = irregular_table(problem, seed);
    CAPTURE(describe(problem), seed);
    REQUIRE(dag::verify(table, {}).verdict == dag::Verdict::ok);
    REQUIRE(table.lanes() == problem.sms);
    REQUIRE(irregular_table(problem, seed).slots == table.slots);
    REQUIRE(sim::simulate(table, {.compute = 3, .reduce = 2, .latency = 1}).complete);
  }
  const Problem problem = make_problem(make_mask("causal"), {512, 512}, {.q = 64, .kv = 64}, 4, 8);
  CHECK(irregular_table(problem, 1).slots != irregular_table(problem, 2).slots);
}

TEST_CASE("an irregular table deals every SM as much, but for one chain") {
  const Problem problem = make_problem(make_mask("full"), {512, 512}, {.q = 64, .kv = 64}, 4, 5);
  const Table table = irregular_table(problem, 7);
  for (Lane lane{0}; lane.value < table.lanes(); ++lane) {
    const std::int64_t tasks = table.end_of(lane) - table.begin_of(lane);
    CHECK(tasks >= 6 * 8);
    CHECK(tasks <= 7 * 8);
  }
}

}  // namespace
}  // namespace stagger::workbench
