#include "workbench/optimization.hpp"

#include "core/limits.hpp"
#include "schedules/schedule.hpp"
#include "schedules/search/evaluate.hpp"
#include "schedules/search/round_cnf.hpp"
#include "sim/memory.hpp"
#include "sim/simulate.hpp"
#include "tests/sim/cost.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random.hpp"
#include "tests/support/refusal.hpp"
#include "workbench/advice.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <vector>

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
      if (schedule->searches() || schedules::why_unsupported(selection, request.problem)) continue;
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

TEST_CASE("where an L2 cache counts the best named schedule is the best of its parameters too") {
  test::Random random(test::seed(98));
  int swizzled = 0;
  for (int round = 0; round < 60; ++round) {
    OptimizationRequest request;
    const std::int64_t n = random.between(4, 8);
    request.problem =
        make_problem(make_mask(round % 2 == 0 ? "full" : "causal"), {n, n}, {}, 32, 2 * n + 1);
    request.effort = 0;
    Timing& timing = request.model.timing;
    timing.model = Model::overlap;
    timing.compute = 20;
    timing.reduce = 6;
    timing.memory = Memory{.l2 = random.between(8, 200),
                           .rate = 1,
                           .tile = {.q = 1, .dq = 1, .kv = 1, .gradient = 1},
                           .spread = round % 3 == 0 ? random.between(1, 9) : 0};
    std::optional<Ticks> least;
    std::optional<Ticks> least_cost;
    std::string first;
    const Table windowed = schedules::build(schedules::select("windowed"), request.problem, timing);
    const Ticks cost_of_windows = sim::cost_by_plays(windowed, timing);
    for (const schedules::Schedule* schedule : schedules::all()) {
      for (const char* words : {"", ":swizzle=4", ":swizzle=8", ":swizzle=16"}) {
        const bool has = std::ranges::any_of(schedule->parameters, [](const auto& parameter) {
          return std::string(parameter.name) == "swizzle";
        });
        if (schedule->searches() || (*words != 0 && !has)) continue;
        const auto selection = schedules::select(std::string(schedule->name) + words);
        if (schedules::why_unsupported(selection, request.problem)) continue;
        const Table table = schedules::build(selection, request.problem, timing);
        if (!sim::simulate(table, timing).complete) continue;
        const sim::MemoryPlay play = sim::play_memory(table, timing);
        const Ticks cost = sim::cost_by_plays(table, timing);
        least_cost = std::min(least_cost.value_or(cost), cost);
        if (least && *least <= play.makespan) continue;
        least = play.makespan;
        first = selection.text;
      }
    }
    CAPTURE(round, first);
    const Optimization optimization = optimize(request);
    REQUIRE(optimization.best_named.has_value());
    CHECK(optimization.best_named->makespan == *least);
    CHECK(optimization.best_named->schedule == first);
    const search::Incumbent& best = *optimization.optimum.best;
    CHECK(best.cost <= *least_cost);
    CHECK((best.cost <= cost_of_windows || optimization.optimum.proof != search::ProofKind::none));
    CHECK(best.cost == sim::cost_by_plays(best.table, timing));
    swizzled += first.find("swizzle") == std::string::npos ? 0 : 1;
  }
  CHECK(swizzled > 1);
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

/// A table as a solver answers it: the round of each task, played in rounds.
SolverAnswer answer_of(const Table& table, std::int64_t rounds) {
  const sim::Simulation played = sim::simulate(table, {.compute = 0, .reduce = 1});
  SolverAnswer answer{.text = "", .source = "answer", .rounds = rounds};
  for (std::size_t slot = 0; slot < table.slots.size(); ++slot) {
    const Task& task = table.slots[slot].task;
    answer.text += "task " + std::to_string(task.head.value) + " " + std::to_string(task.kv.value) +
                   " " + std::to_string(task.q.value) + " " +
                   std::to_string(played.reduce_start[slot]) + "\n";
  }
  return answer;
}

TEST_CASE("a solver's answer that hangs under a delayed release is none") {
  OptimizationRequest request;
  request.problem = make_problem(make_mask("full"), {2, 2}, {}, 1, 2);
  request.effort = 0;
  // Each SM's first task releases its turn with the second, which waits for the other's.
  request.answer = SolverAnswer{.text = "task 0 0 0 0\ntask 0 0 1 1\ntask 0 1 1 0\ntask 0 1 0 1\n",
                                .source = "answer",
                                .rounds = 2};
  const Optimization immediate = optimize(request);
  REQUIRE(immediate.imported.has_value());
  request.model.timing.release = Release::delayed;
  const Optimization delayed = optimize(request);
  CHECK_FALSE(delayed.imported.has_value());
  REQUIRE(delayed.optimum.best.has_value());
  CHECK(delayed.optimum.best->makespan > immediate.optimum.best->makespan);
}

TEST_CASE("a search advises what it is asked to, and no longer than it may take") {
  const auto advised = [](std::int64_t tiles, bool advises) {
    OptimizationRequest request;
    request.problem =
        make_problem(parse_mask("sliding:left=100,right=0"), {tiles, tiles}, {}, 30, 131);
    request.slot_model = true;
    request.advises = advises;
    request.stop = [] { return true; };
    return optimize(request).advice.size();
  };
  CHECK(advised(20, false) == 0);
  CHECK(advised(20, true) == 2);
  CHECK(advised(200, true) == 1);
}

TEST_CASE("one more SM is advised up to as many as there may be") {
  const auto advised = [](std::int64_t sms) {
    Optimization optimization;
    optimization.problem = make_problem(make_mask("full"), {2, 2}, {}, 1, sms);
    const std::vector<Advice> all = advise(optimization);
    return std::ranges::any_of(all,
                               [](const Advice& each) { return each.change == "one more SM"; });
  };
  CHECK(advised(kMaxSms - 1));
  CHECK_FALSE(advised(kMaxSms));
}

TEST_CASE("a solver's answer that is better is the best, and one as good changes nothing") {
  int better = 0;
  for (std::int64_t n = 3; n <= 6; ++n) {
    for (std::int64_t sms = 2; sms <= 5; ++sms) {
      OptimizationRequest request;
      request.problem = make_problem(make_mask("causal"), {n, n}, {}, 2, sms);
      request.slot_model = true;
      request.effort = 0;
      const auto stop_at_once = [] { return true; };
      request.stop = stop_at_once;
      OptimizationRequest searching = request;
      searching.stop = {};
      searching.effort = 20;
      const Optimization searched = optimize(searching);
      REQUIRE(searched.best_named.has_value());
      const Ticks least = searched.optimum.best->makespan;
      // Only the first of the named schedules is looked at.
      const Optimization alone = optimize(request);
      request.answer = answer_of(searched.optimum.best->table, least);
      const Optimization with = optimize(request);
      CAPTURE(n, sms, least, alone.optimum.best->makespan);
      CHECK(with.imported == least);
      CHECK((with.optimum.best->table.name == "imported") ==
            (with.found_by == "the imported solution"));
      CHECK(with.optimum.best->makespan == least);
      if (alone.optimum.best->makespan > least) {
        ++better;
        CHECK(with.found_by == "the imported solution");
      } else {
        CHECK(with.found_by == alone.found_by);
      }
      // As many rounds as the bound if none are said.
      request.answer->rounds = 0;
      if (least == searched.bounds.best.ticks) CHECK(optimize(request).imported == least);
    }
  }
  CHECK(better > 3);
}

TEST_CASE("a solver's answer as good as the best named schedule takes no credit") {
  for (const std::int64_t n : {2, 4, 5}) {
    OptimizationRequest request;
    request.problem = make_problem(make_mask("full"), {n, n}, {}, 1, n);
    request.slot_model = true;
    request.effort = 0;
    const Optimization alone = optimize(request);
    REQUIRE(alone.found_by.starts_with("schedule "));
    request.answer = answer_of(alone.optimum.best->table, n);
    const Optimization with = optimize(request);
    CHECK(with.imported == alone.optimum.best->makespan);
    CHECK(with.found_by == alone.found_by);
  }
}

TEST_CASE("variables of a solver's answer are those of the rounds that it was asked for") {
  OptimizationRequest request;
  request.problem = make_problem(make_mask("full"), {2, 1}, {}, 1, 1);
  const auto said = [&](std::int64_t rounds) {
    request.answer = SolverAnswer{.text = "v 1000 0\n", .source = "many", .rounds = rounds};
    return test::said([&] { return optimize(request).found_by; });
  };
  const auto beyond = [&](std::int32_t rounds) {
    return "refused 1: many: literal 1000 is beyond the formula's " +
           std::to_string(search::RoundCnf(request.problem, rounds).cnf().variables) +
           " variables: another --rounds?";
  };
  CHECK(said(0) == beyond(2));  // the bound
  CHECK(said(1) == beyond(1));
  CHECK(said(2) == beyond(2));
  CHECK(said(3) == beyond(3));
  CHECK(beyond(1) != beyond(2));
  CHECK(said(kMaxTasks + 1) == "refused 3: --rounds is too large");
}

TEST_CASE("rounds of heads that share K and V are found by parts, or by a search of the heads") {
  for (const std::int64_t n : {3, 4, 5}) {
    OptimizationRequest request;
    request.problem = make_problem(make_mask("causal"), {n, n}, {}, 4, 3, {.heads_kv = 2});
    REQUIRE(request.problem.span == 2);
    request.slot_model = true;
    request.effort = 1;
    request.threads = 1;
    const Optimization found = optimize(request);
    CAPTURE(n);
    REQUIRE(found.optimum.best.has_value());
    CHECK(found.optimum.best->makespan ==
          search::rounds_of(found.optimum.best->table, [] { return false; }));
    CHECK(found.found_by == (n == 3 ? "schedule head-blocks" : "edge colouring"));
  }
}

TEST_CASE("what is better than every schedule is found by a search, and only that") {
  int by_schedule = 0;
  int by_search = 0;
  for (const char* mask : {"causal", "full"}) {
    for (std::int64_t n = 2; n <= 5; ++n) {
      for (std::int64_t sms = 2; sms <= 5; ++sms) {
        for (const bool slot_model : {false, true}) {
          OptimizationRequest request;
          request.problem = make_problem(make_mask(mask), {n, n}, {}, 4, sms, {.heads_kv = 2});
          request.slot_model = slot_model;
          request.effort = 1;
          request.threads = 1;
          const Optimization found = optimize(request);
          CAPTURE(mask, n, sms, slot_model, found.found_by);
          REQUIRE(found.best_named.has_value());
          const bool named = found.optimum.best->makespan == found.best_named->makespan;
          REQUIRE((found.found_by == "schedule " + found.best_named->schedule) == named);
          REQUIRE_FALSE(found.found_by.empty());
          ++(named ? by_schedule : by_search);
        }
      }
    }
  }
  CHECK(by_schedule > 10);
  CHECK(by_search > 10);
}

TEST_CASE("no schedule that searches finds a better table than a search that has time") {
  struct Case {
    const char* mask;
    std::int64_t n, heads, heads_kv, span, sms;
    Timing timing;
    const char* schedule;
    Ticks makespan;
  };
  const Case cases[] = {{"sliding:left=4,right=0",
                         7,
                         2,
                         2,
                         1,
                         3,
                         {.compute = 7, .reduce = 6, .latency = 2, .epilogue = 5},
                         "schedule optimal",
                         241},
                        {"sliding:left=4,right=0",
                         8,
                         6,
                         3,
                         2,
                         11,
                         {.model = Model::overlap, .compute = 6, .reduce = 4, .latency = 9},
                         "local search, head by head",
                         124}};
  for (const Case& each : cases) {
    OptimizationRequest request;
    request.problem = make_problem(parse_mask(each.mask), {each.n, each.n}, {}, each.heads,
                                   each.sms, {.heads_kv = each.heads_kv, .span = each.span});
    request.model.timing = each.timing;
    request.threads = 1;
    request.effort = 3;
    const Optimization found = optimize(request);
    CAPTURE(each.mask, each.n);
    CHECK(found.found_by == each.schedule);
    CHECK(found.optimum.best->makespan == each.makespan);
    CHECK((found.proof() == std::string("bound")) ==
          (found.optimum.lower_bound.ticks == each.makespan));
  }
  test::Random random(test::seed(211));
  int searched = 0;
  for (int round = 0; round < 15; ++round) {
    OptimizationRequest request;
    request.problem = test::with_random_groups(random, test::any_problem(random, 4), 2);
    request.model.timing = test::random_timing(random, request.problem);
    request.threads = 1;
    request.effort = 3;
    const Optimization found = optimize(request);
    for (const char* name : {"windowed", "balanced", "optimal"}) {
      const schedules::Selection selection = schedules::select(name);
      if (schedules::why_unsupported(selection, request.problem)) continue;
      const Table table = schedules::build(selection, request.problem, request.model.timing);
      const sim::Simulation played = sim::simulate(table, request.model.timing);
      if (!played.complete) continue;
      CAPTURE(round, name);
      REQUIRE(found.optimum.best->makespan <= played.makespan);
      ++searched;
    }
  }
  CHECK(searched > 30);
}

TEST_CASE("the best named schedule is that of any span that is searched") {
  OptimizationRequest request;
  request.problem =
      make_problem(parse_mask("sliding:left=2,right=0"), {10, 10}, {}, 2, 8, {.heads_kv = 1});
  request.any_span = true;
  request.model.timing = {
      .compute = 2, .reduce = 2, .latency = 9, .launch = 3, .release = Release::delayed};
  request.threads = 1;
  const Optimization found = optimize(request);
  REQUIRE(found.best_named.has_value());
  CHECK(found.best_named->makespan == 52);
  CHECK(found.best_named->span == 2);
  CHECK(found.optimum.best->table.problem.span == 1);
  CHECK(found.optimum.best->makespan <= 52);
}

TEST_CASE("the best named schedule is that of a later span where it is better there") {
  OptimizationRequest request;
  request.problem = make_problem(make_mask("full"), {2, 2}, {}, 6, 4, {.heads_kv = 3});
  request.any_span = true;
  request.model.timing = {.compute = 3, .reduce = 4};
  request.threads = 1;
  OptimizationRequest of_one = request;
  of_one.problem = with_span(request.problem, 1, Combine::partials);
  of_one.any_span = false;
  const Optimization at_one = optimize(of_one);
  REQUIRE(request.problem.span == 2);
  const Optimization found = optimize(request);
  REQUIRE(at_one.best_named.has_value());
  REQUIRE(found.best_named.has_value());
  CHECK(found.best_named->makespan == 42);
  CHECK(found.best_named->makespan == at_one.best_named->makespan);
  CHECK(found.best_named->schedule == at_one.best_named->schedule);
  CHECK(found.best_named->span == 1);
}

TEST_CASE(
    "of several spans the one of the shortest whole pass is taken, passes over parts counted") {
  test::Random random(test::seed(77));
  int longer_kernel = 0;
  for (int round = 0; round < 60; ++round) {
    OptimizationRequest request;
    const std::int64_t shared = random.between(1, 3);
    const std::int64_t n = random.between(2, 5);
    request.problem = make_problem(make_mask(random.chance(2) ? "causal" : "full"), {n, n}, {},
                                   shared * (random.chance(2) ? 2 : 4), random.between(2, 9),
                                   {.heads_kv = shared});
    request.model.timing = {.compute = random.between(1, 5), .reduce = random.between(1, 4)};
    request.threads = 1;
    request.effort = 1;
    const Ticks pass = random.between(0, 30);
    request.model_of = [&, model = request.model](const Problem& problem) {
      TimeModel other = model;
      other.passes = problem.span == problem.group() ? 0 : pass * (problem.group() / problem.span);
      return other;
    };
    OptimizationRequest all = request;
    all.any_span = true;
    const Optimization found = optimize(all);
    Ticks least = std::numeric_limits<Ticks>::max();
    Ticks bound = least;
    Ticks kernel = least;
    for (const std::int64_t span : {1, 2, 4}) {
      if (request.problem.group() % span != 0) continue;
      OptimizationRequest one = request;
      one.problem = with_span(request.problem, span, request.problem.grouping().combine);
      one.model = request.model_of(one.problem);
      const Optimization alone = optimize(one);
      least = std::min(least, alone.optimum.best->makespan + one.model.passes);
      bound = std::min(bound, alone.optimum.lower_bound.ticks + one.model.passes);
      kernel = std::min(kernel, alone.optimum.best->makespan);
    }
    CAPTURE(round, pass);
    const Ticks makespan = found.optimum.best->makespan;
    REQUIRE(makespan + found.model.passes == least);
    REQUIRE(found.optimum.lower_bound.ticks <= std::max<Ticks>(bound - found.model.passes, 0));
    REQUIRE(found.optimum.lower_bound.ticks <= makespan);
    if (found.optimum.proof != search::ProofKind::none) REQUIRE(least == bound);
    longer_kernel += makespan > kernel ? 1 : 0;
  }
  CHECK(longer_kernel > 5);
}

TEST_CASE("a search of many parts that is stopped has the best named table") {
  // A step for each part and for the one behind it on its SM: more than go by between two
  // questions.
  OptimizationRequest request;
  request.problem =
      make_problem(make_mask("full"), {1, 1}, {}, 1'200'000, 2, {.heads_kv = 600'000});
  REQUIRE(request.problem.span == 2);
  request.slot_model = true;
  request.stop = [] { return true; };
  request.threads = 1;
  const Optimization found = optimize(request);
  CHECK(found.optimum.stopped);
  REQUIRE(found.optimum.best.has_value());
  REQUIRE(found.best_named.has_value());
  CHECK(found.optimum.best->makespan == found.best_named->makespan);
}

}  // namespace
}  // namespace stagger::workbench
