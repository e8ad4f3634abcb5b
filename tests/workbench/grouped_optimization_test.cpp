// The search where heads share K and V: it chooses the span, and what it says of its table is true.

#include "dag/verify.hpp"
#include "schedules/schedule.hpp"
#include "sim/simulate.hpp"
#include "tests/sim/cost.hpp"
#include "tests/support/catch.hpp"
#include "workbench/optimization.hpp"

#include <algorithm>
#include <chrono>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace stagger::workbench {
namespace {

Optimization searched(const Problem& problem, const Timing& timing, bool any_span) {
  OptimizationRequest request;
  request.problem = problem;
  request.any_span = any_span;
  request.model.timing = timing;
  request.effort = 2;
  request.threads = 1;
  const Optimization found = optimize(request);
  REQUIRE(found.optimum.best.has_value());
  const Table& table = found.optimum.best->table;
  REQUIRE(dag::verify(table, timing).verdict == dag::Verdict::ok);
  REQUIRE(sim::simulate(table, timing).makespan == found.optimum.best->makespan);
  REQUIRE(found.optimum.lower_bound.ticks <= found.optimum.best->makespan);
  REQUIRE(table.problem.span == found.problem.span);
  const bool reached = found.optimum.lower_bound.ticks == found.optimum.best->makespan;
  REQUIRE(reached == (found.optimum.proof != search::ProofKind::none));
  REQUIRE_FALSE(found.found_by.empty());
  if (found.optimum.proof == search::ProofKind::bound) {
    REQUIRE(found.optimum.detail ==
            std::string("the makespan is the ") + found.optimum.lower_bound.by + " bound");
  }
  return found;
}

TEST_CASE("the span that is best is found, and its bound is that of all spans") {
  struct Row {
    const char* mask;
    std::int64_t n, heads_kv, group, sms;
    Timing timing;
  };
  const Row rows[] = {{"full", 8, 2, 4, 8, {}},
                      {"causal", 8, 2, 4, 8, {.latency = 12}},
                      {"causal", 4, 1, 4, 8, {}},
                      {"causal", 5, 2, 3, 4, {.epilogue = 7}},
                      {"causal", 3, 1, 6, 4, {.model = Model::overlap, .latency = 2}}};
  for (const Row& row : rows) {
    const auto& [mask, n, heads_kv, group, sms, timing] = row;
    CAPTURE(mask, n, heads_kv, group, sms);
    const auto problem = [&row](std::int64_t span) {
      return make_problem(make_mask(row.mask), {row.n, row.n}, {}, row.heads_kv * row.group,
                          row.sms, {.heads_kv = row.heads_kv, .span = span});
    };
    const Optimization any = searched(problem(0), timing, true);
    Ticks least = INT64_MAX;
    for (std::int64_t span = 1; span <= group; ++span) {
      if (group % span != 0) continue;
      const Optimization one = searched(problem(span), timing, false);
      least = std::min(least, one.optimum.best->makespan);
    }
    CHECK(any.optimum.best->makespan == least);
    CHECK(any.optimum.lower_bound.ticks <= least);
  }
}

TEST_CASE("long chains are searched for head by head too, where all heads' dQ leaves L2") {
  OptimizationRequest request;
  request.problem = make_problem(make_mask("causal"), {24, 24}, {}, 24, 16, {.heads_kv = 6});
  REQUIRE(request.problem.span == 4);
  REQUIRE(request.problem.tasks() > 5'000);  // more than schedules that search are tried for
  request.model.timing = {.model = Model::overlap, .compute = 40, .reduce = 16, .latency = 14};
  request.model.timing.memory =
      Memory{.l2 = 4'000, .rate = 20, .tile = {.q = 64, .dq = 64, .kv = 64, .gradient = 64}};
  request.effort = 0;
  const Timing& timing = request.model.timing;
  const auto cost_of = [&](const char* name) {
    const Table table = schedules::build(schedules::select(name), request.problem, timing);
    return sim::cost_by_plays(table, timing);
  };
  const Ticks head_by_head = cost_of("windowed:order=head-major");
  REQUIRE(head_by_head < cost_of("windowed:order=q-major"));
  const Optimization found = optimize(request);
  CHECK(found.optimum.best->cost <= head_by_head);
  CHECK(found.found_by.ends_with(", head by head"));
  // What is proved already is not searched for.
  request.problem = make_problem(make_mask("full"), {4, 4}, {}, 4, 4, {.heads_kv = 2});
  request.model.timing = {};
  int told = 0;
  request.progress = [&](const SearchState& state) {
    told += state.phase.ends_with(", head by head") ? 1 : 0;
  };
  CHECK(optimize(request).optimum.proof == search::ProofKind::bound);
  CHECK(told == 0);
}

TEST_CASE("a search over spans takes as long as all its searches, by a clock of its own") {
  using Clock = std::chrono::steady_clock;
  const Problem problem = make_problem(make_mask("causal"), {8, 8}, {}, 8, 8, {.heads_kv = 2});
  OptimizationRequest request;
  request.problem = problem;
  request.any_span = true;
  request.model.timing = {.latency = 12};
  request.effort = 1;
  request.threads = 1;
  // It sleeps where it says what it does: what that takes is known.
  constexpr std::chrono::milliseconds kNap(20);
  int naps = 0;
  std::set<std::string> phases;
  request.progress = [&](const SearchState& state) {
    if (!phases.insert(state.phase).second) return;
    std::this_thread::sleep_for(kNap);
    ++naps;
  };
  const Clock::time_point begin = Clock::now();
  const Optimization found = optimize(request);
  const std::chrono::duration<double> passed = Clock::now() - begin;
  REQUIRE(naps >= 1);
  CHECK(found.seconds <= passed.count());
  CHECK(found.seconds >= naps * std::chrono::duration<double>(kNap).count());
}

TEST_CASE(
    "a search over two spans may take half of the time for the first, and what is left then") {
  OptimizationRequest request;
  request.problem = make_problem(make_mask("causal"), {5, 5}, {}, 4, 3, {.heads_kv = 2});
  REQUIRE(request.problem.group() == 2);
  request.any_span = true;
  request.model.timing = {.latency = 12};
  request.effort = 1;
  request.threads = 1;
  request.time_limit = 0.2;
  // It sleeps once in each search: in the first for more than a half, and in the second for more
  // than is left. What is told afterwards is that a search that was stopped ends.
  std::vector<std::string> told;
  request.progress = [&](const SearchState& state) {
    const bool begins = told.empty() || state.phase == told.front();
    told.push_back(state.phase);
    if (!begins) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(told.size() == 1 ? 120 : 90));
  };
  const Optimization found = optimize(request);
  CHECK(found.optimum.stopped);
  CHECK(std::ranges::count(told, told.front()) == 2);
  CHECK(std::ranges::count(told, "verifying what was found") == 2);
  CHECK(told.size() == 5);
}

TEST_CASE("in rounds, too, it is said who found a table, and what proves it") {
  int proved = 0;
  for (const std::int64_t n : {2, 3, 4}) {
    for (std::int64_t sms = 2; sms <= 4; ++sms) {
      for (const std::int64_t span : {1, 2}) {
        OptimizationRequest request;
        request.problem =
            make_problem(make_mask("causal"), {n, n}, {}, 4, sms, {.heads_kv = 2, .span = span});
        request.slot_model = true;
        request.effort = 2;
        request.threads = 1;
        const Optimization found = optimize(request);
        CAPTURE(n, sms, span, found.optimum.detail);
        REQUIRE(found.optimum.best.has_value());
        CHECK_FALSE(found.found_by.empty());
        const bool reached = found.optimum.best->makespan == found.optimum.lower_bound.ticks;
        CHECK(reached == (found.optimum.proof != search::ProofKind::none));
        CHECK(found.optimum.detail.empty() == !reached);
        proved += reached ? 1 : 0;
      }
    }
  }
  CHECK(proved > 5);
}

TEST_CASE("lifted shift is proved optimal among all spans") {
  const Problem full = make_problem(make_mask("full"), {8, 8}, {}, 8, 8, {.heads_kv = 2});
  const Optimization found = searched(full, {.latency = 23}, true);
  CHECK(found.optimum.best->makespan == 384);
  CHECK(std::string(found.status()) == "optimal");
  CHECK(found.problem.span == 4);
}

TEST_CASE("ordered parts are searched too, by lists that know their turns") {
  const Problem problem = make_problem(make_mask("causal"), {6, 6}, {}, 4, 5,
                                       {.heads_kv = 2, .span = 1, .combine = Combine::ordered});
  searched(problem, {.latency = 1, .reduce_kv = 3}, false);
  searched(problem, {.model = Model::overlap, .reduce_kv = 3, .reduce_kv_async = true}, true);
}

}  // namespace
}  // namespace stagger::workbench
