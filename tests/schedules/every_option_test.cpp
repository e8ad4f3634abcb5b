// Every option of the timing model with every schedule and every search, on small problems: what a
// table that is made for a model says of itself is true in it, and no option is forgotten on the
// way. `cli/options.sh` walks the same options through the commands.

#include "core/error.hpp"
#include "dag/bounds.hpp"
#include "dag/slot_bounds.hpp"
#include "dag/slot_path.hpp"
#include "dag/verify.hpp"
#include "schedules/schedule.hpp"
#include "schedules/search/evaluate.hpp"
#include "schedules/search/optimize.hpp"
#include "sim/simulate.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random.hpp"

#include <string>
#include <utility>
#include <vector>

namespace stagger {
namespace {

/// All combinations of a few values of every option; those that check_timing() refuses too.
std::vector<Timing> all_timings() {
  std::vector<Timing> timings = {{}};
  const auto vary = [&](auto member, auto values) {
    std::vector<Timing> varied;
    for (const Timing& timing : timings) {
      for (const auto& value : values) {
        varied.push_back(timing);
        varied.back().*member = value;
      }
    }
    timings = std::move(varied);
  };
  vary(&Timing::model, std::vector{Model::chain, Model::overlap});
  vary(&Timing::compute, std::vector<Ticks>{0, 3});
  vary(&Timing::compute_partial, std::vector<std::optional<Ticks>>{std::nullopt, 0, 5});
  vary(&Timing::reduce, std::vector<Ticks>{0, 1, 4});
  vary(&Timing::latency, std::vector<Ticks>{0, 3});
  vary(&Timing::launch, std::vector<Ticks>{0, 1});
  vary(&Timing::epilogue, std::vector<Ticks>{0, 2});
  vary(&Timing::release, std::vector{Release::immediate, Release::delayed});
  vary(&Timing::residency, std::vector<std::int32_t>{0, 1, 2, 9});
  return timings;
}

std::vector<Problem> small_problems() {
  return {
      test::tiles_problem({"p"}, 1, 1),          test::tiles_problem({"ff", ".p"}, 2, 1),
      test::tiles_problem({"fpf", "f.p"}, 1, 3), test::tiles_problem({"fff", ".ff", "..f"}, 2, 2),
      test::tiles_problem({"...", "p.f"}, 1, 2), test::tiles_problem({"..", ".."}, 1, 2),
  };
}

bool refused(const Timing& timing, const Problem& problem) {
  try {
    check_timing(timing, problem);
    return false;
  } catch (const Error& error) {
    REQUIRE(error.kind() == ErrorKind::usage);
    return true;
  }
}

std::string named(const Timing& timing) {
  std::string text = timing.model == Model::overlap ? "overlap" : "chain";
  for (const auto& [name, value] : {std::pair{" compute ", timing.compute},
                                    {" partial ", timing.compute_partial.value_or(-1)},
                                    {" reduce ", timing.reduce},
                                    {" latency ", timing.latency},
                                    {" launch ", timing.launch},
                                    {" epilogue ", timing.epilogue},
                                    {" residency ", Ticks{timing.residency}}}) {
    text += name + std::to_string(value);
  }
  return text + (timing.release == Release::delayed ? " delayed" : "");
}

/// The makespan by code that no schedule and no search uses; none if the table hangs.
std::optional<Ticks> played(const Table& table, const Timing& timing) {
  const dag::Verification verification = dag::verify(table, timing);
  REQUIRE(verification.verdict != dag::Verdict::invalid);
  const sim::Simulation simulation = sim::simulate(table, timing);
  REQUIRE(simulation.complete == (verification.verdict == dag::Verdict::ok));
  if (!simulation.complete) return std::nullopt;
  REQUIRE(simulation.makespan >=
          dag::lower_bounds(table.problem, timing, table.dispatch).best.ticks);
  return simulation.makespan;
}

schedules::Selection quick(const schedules::Schedule& schedule) {
  schedules::Selection selection = schedules::select(schedule.name);
  if (selection.parameters.contains("effort")) selection.parameters["effort"] = 0;
  if (selection.parameters.contains("heads")) selection.parameters["heads"] = 1;
  return selection;
}

TEST_CASE("every option with every schedule: refused, whole, or hanging as verify says") {
  std::int64_t tables = 0;
  std::int64_t refusals = 0;
  for (const Problem& problem : small_problems()) {
    for (const Timing& timing : all_timings()) {
      CAPTURE(named(timing));
      if (refused(timing, problem)) {
        ++refusals;
        for (const schedules::Schedule* schedule : schedules::all()) {
          CAPTURE(schedule->name);
          REQUIRE_THROWS_AS(schedules::build(quick(*schedule), problem, timing), Error);
        }
        continue;
      }
      std::optional<Ticks> least;  // of the static schedules that do not search
      for (const schedules::Schedule* schedule : schedules::all()) {
        const schedules::Selection selection = quick(*schedule);
        if (schedules::why_unsupported(selection, problem)) continue;
        CAPTURE(schedule->name);
        const Table table = schedules::build(selection, problem, timing);
        const std::optional<Ticks> makespan = played(table, timing);
        ++tables;
        if (table.dispatch == Dispatch::static_) {
          REQUIRE(search::makespan_of(table, timing) == makespan);
          if (!schedule->searches() && makespan)
            least = std::min(least.value_or(*makespan), *makespan);
        }
        const std::string_view name = schedule->name;
        if (name != "optimal" && name != "windowed") continue;
        REQUIRE(makespan.has_value());
        if (name == "optimal" && least) REQUIRE(*makespan <= *least);
      }
    }
  }
  CHECK(tables > 100'000);
  CHECK(refusals > 1'000);
}

search::SearchOptions effort_of(std::int64_t effort) {
  search::SearchOptions options;
  options.effort = effort;
  options.stop = [] { return false; };
  return options;
}

/// What an optimum says of itself, against verify, simulator, bounds and the objective.
void check_optimum(const Problem& problem, const search::Objective& objective,
                   std::int64_t effort) {
  const dag::Bounds bounds =
      objective.slot_model ? dag::slot_bounds(on_resident_sms(problem, objective.timing.residency))
                           : dag::lower_bounds(problem, objective.timing, Dispatch::static_);
  const search::Optimum optimum = search::optimize(
      problem, objective, {bounds.best.ticks, bounds.best.by}, std::nullopt, effort_of(effort));
  REQUIRE(optimum.best.has_value());
  const Table& table = optimum.best->table;
  const Ticks makespan = optimum.best->makespan;
  REQUIRE(table.problem.sms == problem.sms);
  // The slot model knows no release: its tables run under an immediate one.
  Timing timing = objective.timing;
  if (objective.slot_model) timing.release = Release::immediate;
  REQUIRE(dag::verify(table, timing).verdict == dag::Verdict::ok);
  REQUIRE((objective.slot_model ? dag::slot_path(table) : played(table, objective.timing)) ==
          makespan);
  REQUIRE(optimum.lower_bound.ticks >= bounds.best.ticks);
  REQUIRE(optimum.lower_bound.ticks <= makespan);
  REQUIRE((optimum.proof != search::ProofKind::none) == (makespan == optimum.lower_bound.ticks));
}

TEST_CASE("every option with a search: the table is what the search says of it") {
  const std::vector<Timing> timings = all_timings();
  const std::vector<Problem> problems = small_problems();
  test::Random random(test::seed(82));
  std::int64_t searched = 0;
  for (int round = 0; round < 2'500; ++round) {
    const auto pick = [&](const auto& items) {
      return items[static_cast<std::size_t>(random.between(0, std::ssize(items) - 1))];
    };
    const Timing timing = pick(timings);
    const Problem problem = random.chance(2) ? pick(problems) : test::any_problem(random, 4);
    CAPTURE(round, problem.heads, problem.sms, problem.kv_tiles(), problem.q_tiles());
    CAPTURE(named(timing));
    if (refused(timing, problem)) continue;
    ++searched;
    check_optimum(problem, {.timing = timing}, random.between(0, 2));
    if (random.chance(4)) check_optimum(problem, {.timing = timing, .slot_model = true}, 1);
  }
  CHECK(searched > 1'000);
}

TEST_CASE("random problems with residency: 500 rounds of searching harder") {
  test::Random random(test::seed(83));
  for (int round = 0; round < 500; ++round) {
    const Problem problem = test::any_problem(random, 5);
    Timing timing = test::random_timing(random, problem);
    timing.residency = static_cast<std::int32_t>(random.between(1, problem.sms));
    CAPTURE(round, problem.heads, problem.sms, problem.kv_tiles(), problem.q_tiles());
    CAPTURE(named(timing));
    check_optimum(problem, {.timing = timing}, 2);
  }
}

}  // namespace
}  // namespace stagger
