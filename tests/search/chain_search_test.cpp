#include "schedules/search/chain_search.hpp"

#include "dag/verify.hpp"
#include "sim/simulate.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/naive.hpp"
#include "tests/support/random.hpp"

namespace stagger::search {
namespace {

constexpr Ticks kFar = Ticks{1} << 40;
bool never() {
  return false;
}

TEST_CASE("the exhaustive search finds what trying every table finds") {
  test::Random random(65);
  std::int64_t searched = 0;
  while (searched < 400) {
    const Problem problem = test::random_problem(random, 3);
    if (problem.tasks() == 0 || problem.tasks() > 5) continue;
    ++searched;
    Timing timing;
    timing.compute = random.between(0, 6);
    if (random.chance(2)) timing.compute_partial = random.between(0, 8);
    timing.reduce = random.between(1, 6);
    timing.latency = random.between(0, 2);
    timing.launch = random.between(0, 2);
    timing.epilogue = random.between(0, 2);
    CAPTURE(searched, problem.heads, problem.sms, problem.grid.kv_tiles(), problem.grid.q_tiles(),
            timing.compute, timing.longest_compute(), timing.reduce, timing.latency, timing.launch,
            timing.epilogue);
    const ChainSearch found = search_chains(problem, timing, kFar, 0, 1'000'000, never);
    REQUIRE(found.complete);
    REQUIRE(found.table.has_value());
    REQUIRE(dag::verify(*found.table, timing).verdict == dag::Verdict::ok);
    REQUIRE(sim::simulate(*found.table, timing).makespan == found.makespan);
    REQUIRE(found.makespan == test::naive_optimum(problem, timing));
    // Nothing lies below the optimum.
    const ChainSearch none = search_chains(problem, timing, found.makespan, 0, 1'000'000, never);
    REQUIRE(none.complete);
    REQUIRE_FALSE(none.table.has_value());
  }
}

TEST_CASE("a collision costs a reduction, not a slot") {
  const Problem problem = make_problem(make_mask("full"), {2, 3}, {}, 1, 3);
  const ChainSearch found = search_chains(problem, {}, kFar, 0, 1'000'000, never);
  CHECK(found.complete);
  CHECK(found.makespan == 13);
  const Problem taller = make_problem(make_mask("full"), {3, 4}, {}, 1, 4);
  CHECK(search_chains(taller, {}, kFar, 19, 1'000'000, never).makespan == 19);
}

TEST_CASE("a search that is cut short does not claim to be complete") {
  const Problem problem = make_problem(make_mask("full"), {4, 4}, {}, 1, 3);
  CHECK_FALSE(search_chains(problem, {}, kFar, 0, 10, never).complete);
  CHECK_FALSE(search_chains(problem, {}, kFar, 0, 1'000'000, [] { return true; }).complete);
}

}  // namespace
}  // namespace stagger::search
