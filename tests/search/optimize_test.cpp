#include "schedules/search/optimize.hpp"

#include "dag/bounds.hpp"
#include "dag/slot_bounds.hpp"
#include "dag/verify.hpp"
#include "schedules/schedule.hpp"
#include "schedules/search/evaluate.hpp"
#include "schedules/search/sat.hpp"
#include "sim/simulate.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/naive.hpp"
#include "tests/support/random.hpp"
#include "tests/support/skip.hpp"

namespace stagger::search {
namespace {

SearchOptions options_of(std::int64_t effort, int threads = 1) {
  SearchOptions options;
  options.effort = effort;
  options.threads = threads;
  options.stop = [] { return false; };
  return options;
}

Optimum optimized(const Problem& problem, const Timing& timing, const SearchOptions& options) {
  const dag::Bounds bounds = dag::lower_bounds(problem, timing, Dispatch::static_);
  return optimize(problem, {.timing = timing}, {bounds.best.ticks, bounds.best.by}, std::nullopt,
                  options);
}

TEST_CASE("what is called optimal is what trying every table finds") {
  test::Random random(67);
  std::int64_t searched = 0;
  while (searched < 150) {
    const Problem problem = test::random_problem(random, 3);
    if (problem.tasks() > 5) continue;
    ++searched;
    const Timing timing{.compute = random.between(1, 5), .reduce = random.between(0, 5)};
    CAPTURE(searched, timing.compute, timing.reduce);
    const Optimum optimum = optimized(problem, timing, options_of(20));
    REQUIRE(optimum.proof != ProofKind::none);
    REQUIRE(optimum.best->makespan ==
            (problem.tasks() == 0 ? 0 : test::naive_optimum(problem, timing)));
  }
}

TEST_CASE("in the slot model too") {
  if (test::skipped_without_sat_solver()) return;
  test::Random random(68);
  std::int64_t searched = 0;
  while (searched < 150) {
    const Problem problem = test::random_problem(random, 4);
    if (problem.tasks() == 0 || problem.tasks() > 8) continue;
    ++searched;
    CAPTURE(searched);
    const dag::Bounds bounds = dag::slot_bounds(problem);
    const Optimum optimum =
        optimize(problem, {.timing = {}, .slots = true}, {bounds.best.ticks, bounds.best.by},
                 std::nullopt, options_of(5));
    REQUIRE(optimum.proof != ProofKind::none);
    REQUIRE(slots_of(optimum.best->table) == optimum.best->makespan);
    REQUIRE(optimum.best->makespan == test::naive_slot_optimum(problem));
  }
}

TEST_CASE("every option of the model gives a whole table that runs, between bound and schedules") {
  test::Random random(69);
  for (int round = 0; round < 60; ++round) {
    const Problem problem = test::random_problem(random, 6);
    const Timing timing = test::random_timing(random, problem);
    CAPTURE(round);
    const Optimum optimum = optimized(problem, timing, options_of(1));
    REQUIRE(optimum.best.has_value());
    const Table& table = optimum.best->table;
    REQUIRE(dag::verify(table, timing).verdict == dag::Verdict::ok);
    REQUIRE(sim::simulate(table, timing).makespan == optimum.best->makespan);
    REQUIRE(optimum.lower_bound.ticks <= optimum.best->makespan);
  }
}

TEST_CASE("the number of threads does not matter") {
  const Problem problem = make_problem(parse_mask("sliding:left=5,right=0"), {14, 14}, {}, 3, 5);
  const Timing timing{.model = Model::overlap, .compute = 7, .reduce = 5, .latency = 3};
  const Optimum one = optimized(problem, timing, options_of(10, 1));
  const Optimum four = optimized(problem, timing, options_of(10, 4));
  CHECK(one.best->makespan == four.best->makespan);
  CHECK(one.best->table.slots == four.best->table.slots);
}

TEST_CASE("a search that is stopped keeps its best and proves nothing") {
  const Problem problem = make_problem(parse_mask("sliding:left=5,right=0"), {14, 14}, {}, 3, 5);
  SearchOptions options = options_of(10);
  options.stop = [] { return true; };
  const Optimum optimum = optimized(problem, {.reduce = 5}, options);
  CHECK(optimum.stopped);
  CHECK(optimum.best.has_value());
  CHECK(optimum.proof == ProofKind::none);
}

// With a sanitizer the long sequences take a minute.
#ifdef __SANITIZE_ADDRESS__
constexpr std::int64_t kLongest = 2'048;
#else
constexpr std::int64_t kLongest = 16'384;
#endif

TEST_CASE("on the paper's shapes no named schedule beats optimal, in the overlap model") {
  for (const std::int64_t head_dim : {64, 128}) {
    for (const char* mask : {"full", "causal"}) {
      for (std::int64_t length = 512; length <= kLongest; length *= 2) {
        const std::int64_t heads = 2'048 / head_dim * (16'384 / length);
        const Problem problem =
            make_problem(make_mask(mask), {length, length}, {128, 128}, heads, 132);
        const Timing timing{.model = Model::overlap, .compute = 10, .reduce = 4, .latency = 3};
        const Table best = schedules::build(schedules::select("optimal:effort=0"), problem, timing);
        const Ticks least = sim::simulate(best, timing).makespan;
        for (const schedules::Schedule* schedule : schedules::all()) {
          const schedules::Selection selection = schedules::select(schedule->name);
          if (schedule->searches || schedules::why_unsupported(selection, problem)) continue;
          CAPTURE(head_dim, mask, length, schedule->name);
          const Table table = schedules::build(selection, problem, timing);
          REQUIRE(sim::simulate(table, timing).makespan >= least);
        }
      }
    }
  }
}

}  // namespace
}  // namespace stagger::search
