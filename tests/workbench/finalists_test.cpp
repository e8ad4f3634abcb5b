#include "workbench/finalists.hpp"

#include "core/error.hpp"
#include "schedules/schedule.hpp"
#include "sim/memory.hpp"
#include "tests/sim/cost.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace stagger::workbench {
namespace {

/// Costs of what schedules make of a problem, by the names of the tables.
std::map<std::string, Ticks> costs_of_schedules(const Problem& problem, const Timing& timing) {
  std::map<std::string, Ticks> found;
  for (const schedules::Schedule* schedule : schedules::all()) {
    if (schedule->searches() && !(timing.memory && schedule->name == std::string("windowed"))) {
      continue;
    }
    for (const schedules::Selection& selection :
         schedules::variants(*schedule, timing.memory.has_value())) {
      if (schedules::why_unsupported(selection, problem)) continue;
      const Table table = schedules::build(selection, problem, timing);
      if (const Ticks cost = sim::cost_by_plays(table, timing); cost >= 0) found[table.name] = cost;
    }
  }
  return found;
}

TEST_CASE("finalists are the best tables by the model, each once") {
  test::Random random(test::seed(131));
  std::size_t cut = 0;
  for (int round = 0; round < 60; ++round) {
    CAPTURE(round);
    OptimizationRequest request;
    request.problem = test::any_problem(random, 5);
    request.effort = 0;
    request.model.timing = test::random_timing(random, request.problem);
    if (round % 2 == 1) {
      request.model.timing.memory =
          Memory{.l2 = 64, .rate = 7, .tile = {.q = 8, .dq = 8, .kv = 16, .gradient = 16}};
      request.model.timing.memory->spread = random.between(0, 3);
    }
    const Optimization optimization = optimize(request);
    REQUIRE(optimization.optimum.best);
    const auto count = static_cast<std::size_t>(random.between(1, 6));
    const std::vector<Finalist> found = finalists_of(optimization, count);
    REQUIRE(!found.empty());
    REQUIRE(found.size() <= count);
    // A search of no effort may find less than the windows.
    const search::Incumbent& best = *optimization.optimum.best;
    const bool windows = optimization.model.timing.memory.has_value();
    REQUIRE(found.front().cost <= best.cost);
    REQUIRE((windows || found.front().cost == best.cost));
    REQUIRE(std::ranges::is_sorted(found, {}, &Finalist::cost));
    // Windows are for a memory.
    REQUIRE((windows || std::ranges::none_of(found, [](const Finalist& each) {
               return each.name.starts_with("windowed");
             })));
    const std::map<std::string, Ticks> named =
        costs_of_schedules(optimization.problem, optimization.model.timing);
    for (const Finalist& each : found) {
      REQUIRE(sim::makespan_of(each.table, optimization.model.timing) == each.makespan);
      REQUIRE(sim::cost_by_plays(each.table, optimization.model.timing) == each.cost);
      REQUIRE(std::ranges::count_if(found, [&](const Finalist& other) {
                return other.table.slots == each.table.slots &&
                       other.table.lane_begin == each.table.lane_begin &&
                       other.table.dispatch == each.table.dispatch;
              }) == 1);
    }
    // Of one that is stopped what was found is there.
    const std::vector<Finalist> stopped = finalists_of(optimization, count, 0, [] { return true; });
    REQUIRE(stopped.size() == 1);
    REQUIRE(stopped.front().cost == best.cost);
    // What is left out is no better than the last, or the same table as one that is there.
    for (const auto& [name, ticks] : named) {
      const Ticks cost = ticks;  // clang 14 captures no structured bindings
      const bool there =
          std::ranges::any_of(found, [&](const Finalist& each) { return each.cost == cost; });
      REQUIRE((there || (found.size() == count && cost >= found.back().cost)));
    }
    cut += found.size() == count ? 1 : 0;
  }
  CHECK(cut > 20);
}

TEST_CASE("windows in both orders of a chain's heads are among the finalists") {
  OptimizationRequest request;
  request.problem = make_problem(make_mask("causal"), {9, 9}, {}, 8, 5, {.heads_kv = 2});
  request.effort = 0;
  request.model.timing.memory =
      Memory{.l2 = 100'000, .rate = 7, .tile = {.q = 8, .dq = 8, .kv = 16, .gradient = 16}};
  const Optimization optimization = optimize(request);
  REQUIRE_FALSE(optimization.optimum.best->table.name.starts_with("windowed"));
  const std::vector<Finalist> found = finalists_of(optimization, 100);
  for (const char* order : {"q-major", "head-major"}) {
    CAPTURE(order);
    CHECK(std::ranges::any_of(found, [&](const Finalist& each) {
      return each.name.starts_with("windowed:") && each.name.ends_with(order);
    }));
  }
}

TEST_CASE(
    "finalists are the tables of the shortest whole passes, of every span that was searched") {
  test::Random random(test::seed(132));
  std::size_t several = 0;
  for (int round = 0; round < 30; ++round) {
    CAPTURE(round);
    OptimizationRequest request;
    const std::int64_t shared = random.between(1, 2);
    const std::int64_t n = random.between(2, 5);
    request.problem = make_problem(make_mask(random.chance(2) ? "causal" : "full"), {n, n}, {},
                                   shared * (random.chance(2) ? 2 : 4), random.between(2, 9),
                                   {.heads_kv = shared});
    request.any_span = true;
    request.effort = 0;
    const Ticks pass = random.between(0, 20);
    const TimeModel model{.timing = {.compute = random.between(1, 5), .reduce = 2}};
    request.model_of = [&](const Problem& problem) {
      TimeModel other = model;
      other.passes = problem.span == problem.group() ? 0 : pass * problem.group() / problem.span;
      return other;
    };
    const Optimization optimization = optimize(request);
    const std::vector<Finalist> found = finalists_of(optimization, 1000);
    REQUIRE(std::ranges::is_sorted(found, {}, &Finalist::whole));
    REQUIRE(found.front().table.problem.span == optimization.problem.span);
    std::set<std::int32_t> spans = {optimization.problem.span};
    for (const Optimization& other : optimization.others)
      spans.insert(other.problem.span);
    REQUIRE(spans.size() == 1 + optimization.others.size());
    std::set<std::int32_t> there;
    for (const Finalist& each : found) {
      there.insert(each.table.problem.span);
      REQUIRE(each.model.passes == request.model_of(each.table.problem).passes);
      REQUIRE(sim::makespan_of(each.table, each.model.timing) == each.makespan);
    }
    REQUIRE(there == spans);
    for (const std::int32_t span : spans) {
      const Problem problem = with_span(request.problem, span, request.problem.grouping().combine);
      for (const auto& [name, ticks] : costs_of_schedules(problem, model.timing)) {
        const Ticks cost = ticks;  // clang 14 captures no structured bindings
        REQUIRE(std::ranges::any_of(found, [&](const Finalist& each) {
          return each.cost == cost && each.table.problem.span == span;
        }));
      }
    }
    several += spans.size() > 1 ? 1 : 0;
  }
  CHECK(several > 10);
}

Finalist finalist(std::string name) {
  Finalist made{.name = std::move(name), .table = {}};
  made.table.name = made.name;
  return made;
}

std::vector<std::string> names_of(const std::vector<Finalist>& finalists) {
  std::vector<std::string> names;
  for (const Finalist& each : finalists)
    names.push_back(each.name);
  return names;
}

TEST_CASE("finalists are made by as many threads as are asked for, and are the same") {
  OptimizationRequest request;
  request.problem = make_problem(make_mask("causal"), {32, 32}, {}, 2, 7);
  request.effort = 0;
  request.model.timing = {.compute = 9, .reduce = 4};
  const Optimization optimization = optimize(request);
  const auto made_by = [&](std::int64_t threads) {
    std::mutex lock;
    std::set<std::thread::id> seen;
    const std::vector<Finalist> found = finalists_of(optimization, 4, threads, [&] {
      const std::lock_guard<std::mutex> guard(lock);
      seen.insert(std::this_thread::get_id());
      return false;
    });
    std::vector<std::string> names;
    for (const Finalist& each : found)
      names.push_back(each.name);
    return std::pair(names, seen);
  };
  const auto [alone, one] = made_by(1);
  const auto [beside, several] = made_by(4);
  CHECK(one == std::set{std::this_thread::get_id()});
  CHECK(several.size() > 1);
  CHECK(alone == beside);
}

TEST_CASE("finalists run in turns and are ordered by their medians") {
  const std::map<std::string, std::vector<std::int64_t>> kTimes = {
      {"a", {30, 10, 31}}, {"b", {20, 90, 21}}, {"c", {25, 25, 25}}};
  std::vector<Finalist> finalists = {finalist("a"), finalist("b"), finalist("c")};
  std::map<std::string, std::size_t> runs;
  std::string order;
  const TimedRun run = [&](const Finalist& each) {
    order += each.name;
    return kTimes.at(each.name).at(runs[each.name]++);
  };
  std::vector<std::size_t> told;
  measure(finalists, 3, run, [&](std::size_t done, std::size_t all) {
    CHECK(all == 9);
    told.push_back(done);
    return true;
  });
  CHECK(order == "abcabcabc");
  CHECK(told == std::vector<std::size_t>{0, 1, 2, 3, 4, 5, 6, 7, 8});
  CHECK(names_of(finalists) == std::vector<std::string>{"b", "c", "a"});
  CHECK(finalists[0].ns == std::vector<std::int64_t>{20, 90, 21});
  CHECK(finalists[0].median_ns() == 21);
}

TEST_CASE("a finalist that fails runs no more and is last") {
  std::vector<Finalist> finalists = {finalist("hangs"), finalist("runs")};
  int hung = 0;
  measure(finalists, 3, [&](const Finalist& each) -> std::int64_t {
    if (each.name == "runs") return 5;
    ++hung;
    throw Error(ErrorKind::device, "run: deadlock");
  });
  CHECK(hung == 1);
  CHECK(names_of(finalists) == std::vector<std::string>{"runs", "hangs"});
  CHECK(finalists[1].failed == "run: deadlock");
  CHECK(finalists[0].ns.size() == 3);
}

TEST_CASE("who stops a measurement keeps what has run") {
  std::vector<Finalist> finalists = {finalist("a"), finalist("b"), finalist("c")};
  measure(
      finalists, 3, [](const Finalist& each) { return each.name == "a" ? 9 : 7; },
      [](std::size_t done, std::size_t) { return done < 2; });
  CHECK(names_of(finalists) == std::vector<std::string>{"b", "a", "c"});
  CHECK(finalists[2].failed == "not run");
  CHECK(finalists[0].failed.empty());
}

}  // namespace
}  // namespace stagger::workbench
