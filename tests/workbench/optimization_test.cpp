#include "workbench/optimization.hpp"

#include "schedules/schedule.hpp"
#include "sim/simulate.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random.hpp"

#include <optional>
#include <string>

namespace stagger::workbench {
namespace {

TEST_CASE("the best named schedule is the first of those that nothing named beats") {
  test::Random random(test::seed(97));
  std::int64_t ties = 0;
  for (int round = 0; round < 100; ++round) {
    OptimizationRequest request;
    request.problem = test::any_problem(random, 5);
    request.effort = 0;
    request.model.timing = test::random_timing(random, request.problem);
    std::string first;
    std::optional<Ticks> least;
    for (const schedules::Schedule* schedule : schedules::all()) {
      const schedules::Selection selection = schedules::select(schedule->name);
      if (schedule->searches || schedules::why_unsupported(selection, request.problem)) continue;
      const Table table = schedules::build(selection, request.problem, request.model.timing);
      const sim::Simulation played = sim::simulate(table, request.model.timing);
      if (!played.complete) continue;
      ties += least && played.makespan == *least ? 1 : 0;
      if (least && *least <= played.makespan) continue;
      least = played.makespan;
      first = schedule->name;
    }
    CAPTURE(round);
    const Optimization optimization = optimize(request);
    REQUIRE(optimization.best_named.has_value() == least.has_value());
    REQUIRE(optimization.optimum.best.has_value());
    if (!least) continue;
    REQUIRE(optimization.best_named->makespan == *least);
    REQUIRE(optimization.best_named->schedule == first);
    REQUIRE(optimization.optimum.best->makespan <= *least);
  }
  CHECK(ties > 50);
}

TEST_CASE("a solver's answer counts where it is the best that is known, and only there") {
  OptimizationRequest request;
  request.problem = make_problem(make_mask("causal"), {4, 4}, {}, 1, 4);
  request.effort = 0;
  const Optimization alone = optimize(request);
  REQUIRE(alone.optimum.best.has_value());
  // Each task in a round of its own: as slow as one SM.
  std::string slow;
  int rounds = 0;
  for (int kv = 0; kv < 4; ++kv) {
    for (int q = kv; q < 4; ++q)
      slow += "task 0 " + std::to_string(kv) + " " + std::to_string(q) + " " +
              std::to_string(rounds++) + "\n";
  }
  request.answer = SolverAnswer{.text = slow, .source = "slow", .rounds = rounds};
  const Optimization with = optimize(request);
  REQUIRE(with.imported.has_value());
  CHECK(*with.imported > alone.optimum.best->makespan);
  CHECK(with.optimum.best->makespan == alone.optimum.best->makespan);
  CHECK(with.found_by == alone.found_by);
  CHECK(with.optimum.best->table.slots == alone.optimum.best->table.slots);
}

}  // namespace
}  // namespace stagger::workbench
