#include "schedules/search/edge_coloring.hpp"

#include "dag/verify.hpp"
#include "schedules/search/dice.hpp"
#include "schedules/search/evaluate.hpp"
#include "schedules/search/packing.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random.hpp"

namespace stagger::search {
namespace {

bool goes_on() {
  return false;
}

TEST_CASE("a colouring is a table without a collision that is as long as its lanes") {
  test::Random random(71);
  std::int64_t colored = 0;
  for (int round = 0; round < 1'000; ++round) {
    CAPTURE(round);
    const Problem problem = test::any_problem(random, 8);
    const ChainLanes lanes = pack_chains(chains_of(problem), problem.sms, 0);
    const auto times = color_edges(problem, lanes, 1, 1'000, goes_on);
    if (!times) continue;
    ++colored;
    const Table table = table_of(problem, *times, "colouring");
    REQUIRE(dag::verify(table, {}).verdict == dag::Verdict::ok);
    REQUIRE(rounds_of(table).value_or(0) <= longest_lane(lanes));
  }
  CHECK(colored > 700);
}

TEST_CASE("equal intervals are coloured without evicting: alternating paths alone suffice") {
  for (const std::int64_t n : {2, 7, 16, 40}) {
    const Problem problem = make_problem(make_mask("full"), {n, n}, {}, 3, n);
    const ChainLanes lanes = pack_chains(chains_of(problem), problem.sms, 0);
    CAPTURE(n);
    CHECK(color_edges(problem, lanes, 1, 0, goes_on).has_value());
  }
}

TEST_CASE("lanes that can't be coloured are given up") {
  const Problem problem = make_problem(make_mask("full"), {2, 3}, {}, 1, 3);
  CHECK_FALSE(
      color_edges(problem, pack_chains(chains_of(problem), 3, 0), 1, 10'000, goes_on).has_value());
}

TEST_CASE("a large causal problem is coloured at its work bound") {
  const Problem problem = make_problem(make_mask("causal"), {128, 128}, {}, 16, 132);
  const Ticks bound = (problem.tasks() + 131) / 132;
  ChainLanes lanes = pack_chains(chains_of(problem), problem.sms, bound);
  Dice dice(1);
  for (std::vector<Chain>& lane : lanes)
    dice.shuffle(lane);
  REQUIRE(longest_lane(lanes) == bound);
  const auto times = color_edges(problem, lanes, 1, 100'000, goes_on);
  REQUIRE(times.has_value());
  CHECK(rounds_of(table_of(problem, *times, "colouring")) == bound);
}

}  // namespace
}  // namespace stagger::search
