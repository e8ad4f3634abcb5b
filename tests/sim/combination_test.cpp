// The second accumulation: what simulator, graph, critical path, liveness, bounds and the search's
// own evaluation say of tables whose parts are added to dK and dV in order, against a play of the
// rules tick by tick.

#include "core/files.hpp"
#include "core/table_digest.hpp"
#include "dag/bounds.hpp"
#include "dag/lemma1.hpp"
#include "dag/longest_path.hpp"
#include "dag/verify.hpp"
#include "schedules/schedule.hpp"
#include "schedules/search/evaluate.hpp"
#include "sim/bubbles.hpp"
#include "sim/critical_path.hpp"
#include "sim/simulate.hpp"
#include "sim/timeline.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/naive.hpp"
#include "tests/support/random.hpp"

namespace stagger {
namespace {

/// One KV tile and one Q tile, a group of `group` heads, a chain each.
Problem one_tile(std::int64_t group, std::int64_t sms) {
  return make_problem(make_mask("full"), {1, 1}, {}, group, sms,
                      {.heads_kv = 1, .span = 1, .combine = Combine::ordered});
}

Slot slot(std::int32_t head) {
  return {{Head{head}, KvTile{0}, QTile{0}}, 0};
}

TEST_CASE("parts that end together wait for each other") {
  // c 5, r 1, reduce-kv 3, latency 2: part j may start at 6 + j (3 + 2).
  Table table;
  table.problem = one_tile(3, 3);
  for (std::int32_t head = 0; head < 3; ++head) {
    table.slots.push_back(slot(head));
    table.end_lane();
  }
  const Timing timing{.latency = 2, .reduce_kv = 3};
  const sim::Simulation simulation = sim::simulate(table, timing);
  CHECK(simulation.reduce_kv_start == IndexVector<std::int64_t, Ticks>{6, 11, 16});
  CHECK(simulation.makespan == 19);
  CHECK(test::naive_makespan(table, timing) == 19);
  const dag::Bounds bounds = dag::lower_bounds(table.problem, timing, table.dispatch);
  CHECK(bounds.best.ticks == 19);
  CHECK(std::string(bounds.best.by) == "dkv");
}

TEST_CASE("a writer's reduction into dK and dV leaves the SM free") {
  // Two chains of one SM: 5 + 1 + 3 each one after the other; or 5 + 1, then 3 beside 5, then 1, 3.
  Table table;
  table.problem = one_tile(2, 1);
  table.slots = {slot(0), slot(1)};
  table.end_lane();
  CHECK(sim::simulate(table, {.reduce_kv = 3}).makespan == 18);
  CHECK(sim::simulate(table, {.reduce_kv = 3, .reduce_kv_async = true}).makespan == 15);
  // The next reduction into dQ waits for the writer: 6 + 9, 1, 9.
  CHECK(sim::simulate(table, {.reduce_kv = 9, .reduce_kv_async = true}).makespan == 25);
}

TEST_CASE("part 1 before part 0 on one lane is a cycle of one, named by KV head and tile") {
  Table table;
  table.problem = make_problem(make_mask("full"), {1, 1}, {}, 4, 1,
                               {.heads_kv = 2, .span = 1, .combine = Combine::ordered});
  table.slots = {slot(0), slot(1), slot(3), slot(2)};
  table.end_lane();
  const dag::Verification verification = dag::verify(table, {});
  CHECK(verification.verdict == dag::Verdict::deadlock);
  REQUIRE(verification.findings.size() == 1);
  CHECK(verification.findings.front().message ==
        "1 task never runs; 1 dQ tile is never finished; 1 KV tile without its dK, dV, first dK, "
        "dV(KV head 1, kv 0); shortest cycle of waits: 1");
  REQUIRE(verification.liveness.cycle.size() == 1);
  CHECK(verification.liveness.cycle.front().dkv);
  CHECK(describe(verification.liveness.cycle, Dispatch::static_).front() ==
        "SM 0 is behind (head 3, kv 0, q 0) and waits for lock value 1 of dK, dV(KV head 1, kv 0), "
        "which shows 0: the chain of (head 2, kv 0, q 0), rank 0, must reduce first, and that is "
        "behind it on the same SM");
  CHECK_FALSE(sim::simulate(table, {}).complete);
  // With ranks in the order of the lane it runs.
  table.dkv_ranks = {0, 1, 1, 0};
  CHECK(dag::verify(table, {}).verdict == dag::Verdict::ok);
}

TEST_CASE("wrong ranks of dK and dV are findings") {
  Table table;
  table.problem = make_problem(make_mask("causal"), {2, 2}, {}, 2, 4,
                               {.heads_kv = 1, .span = 1, .combine = Combine::ordered});
  table = schedules::build(schedules::select("ascending"), table.problem);
  const auto kinds = [&](std::vector<std::int32_t> ranks) {
    table.dkv_ranks = IndexVector<std::int64_t, std::int32_t>(ranks.begin(), ranks.end());
    std::vector<std::string> names;
    for (const dag::Finding& finding : dag::verify(table, {}).findings) {
      if (finding.kind != dag::FindingKind::deadlock)
        names.emplace_back(finding_name(finding.kind));
    }
    return names;
  };
  using Names = std::vector<std::string>;
  CHECK(kinds({0, 0, 1, 1}).empty());
  CHECK(kinds({1, 0, 0, 1}).empty());
  CHECK(kinds({0, 0, 0, 1}) == Names{"dkv-rank-duplicate", "dkv-rank-gap"});
  CHECK(kinds({0, 0, 2, 1}) == Names{"dkv-rank-out-of-range", "dkv-rank-gap"});
  CHECK(kinds({0, 0, -1, 1}) == Names{"dkv-rank-out-of-range", "dkv-rank-gap"});
  CHECK(dag::verify(table, {}).verdict != dag::Verdict::ok);
}

TEST_CASE("a chain of several heads that is left and taken up again is split") {
  Table table;
  table.problem = make_problem(make_mask("full"), {1, 2}, {}, 2, 1, {.heads_kv = 1, .span = 2});
  const auto task = [](std::int32_t head, std::int32_t kv) {
    return Slot{{Head{head}, KvTile{kv}, QTile{0}}, kv};
  };
  table.slots = {task(0, 0), task(1, 0), task(0, 1), task(1, 1)};
  table.end_lane();
  CHECK(dag::verify(table, {}).verdict == dag::Verdict::ok);
  std::swap(table.slots[1], table.slots[2]);
  const dag::Verification verification = dag::verify(table, {});
  CHECK(verification.verdict == dag::Verdict::invalid);
  REQUIRE_FALSE(verification.findings.empty());
  CHECK(std::string(finding_name(verification.findings.front().kind)) == "chain-split");
}

void check_finished(const Table& table, const Timing& timing, const sim::Simulation& simulation) {
  const auto graph = dag::build(table, timing);
  REQUIRE(graph.has_value());
  const auto times = dag::path_times(*graph);
  REQUIRE(times.has_value());
  REQUIRE(times->length == simulation.makespan);
  const auto covered = [](const CriticalPath& path) {
    Ticks end = 0;
    for (const CriticalStep& step : path.steps) {
      REQUIRE(step.start == end);
      end = step.end;
    }
    return end;
  };
  REQUIRE(covered(dag::critical_path(table, *graph, *times)) == simulation.makespan);
  REQUIRE(covered(sim::critical_path(table, timing, simulation)) == simulation.makespan);
  REQUIRE(dag::lower_bounds(table.problem, timing, table.dispatch).best.ticks <=
          simulation.makespan);
  const sim::Bubbles bubbles = sim::bubbles(table, timing, simulation);
  REQUIRE(bubbles.startup >= 0);
  REQUIRE(bubbles.order >= 0);
  REQUIRE(bubbles.tail >= 0);
  REQUIRE(bubbles.last.startup + bubbles.last.order + bubbles.last.busy == simulation.makespan);
  Ticks phases = 0;
  for (const Interval& interval : sim::timeline(table, timing, simulation).intervals) {
    REQUIRE(interval.end <= simulation.makespan);
    phases += interval.phase == Phase::wait ? 0 : interval.end - interval.start;
  }
  REQUIRE(bubbles.busy <= phases);
  const bool one_at_a_time = timing.model == Model::chain && !timing.reduce_kv_async;
  if (one_at_a_time) REQUIRE(bubbles.busy == phases);
}

TEST_CASE("random tables with groups: simulator, graph, paths, liveness and bounds agree") {
  test::Random random(test::seed(150));
  std::int64_t finished = 0;
  std::int64_t hanging = 0;
  std::int64_t dkv_cycles = 0;
  for (int round = 0; round < 3'000; ++round) {
    const Problem problem = test::with_random_groups(random, test::any_problem(random, 3), 4);
    const Timing timing =
        test::with_random_combination(random, test::random_timing(random, problem));
    const Dispatch dispatch = random.chance(2) ? Dispatch::static_ : Dispatch::in_order;
    Table table = random.chance(4) ? test::random_table(random, problem, dispatch)
                                   : test::random_live_table(random, problem, dispatch);
    if (problem.combine == Combine::ordered && random.chance(2)) {
      test::shuffle_dkv_ranks(random, table);
    }
    CAPTURE(round, problem.heads, problem.heads_kv, problem.span, problem.sms,
            timing.model == Model::overlap, timing.reduce_kv, timing.reduce_kv_async,
            timing.residency);
    const dag::Verification verification = dag::verify(table, timing);
    REQUIRE(verification.verdict != dag::Verdict::invalid);
    const sim::Simulation simulation = sim::simulate(table, timing);
    REQUIRE(simulation.complete == (verification.verdict == dag::Verdict::ok));
    const test::NaivePlay naive = test::naive_play(table, timing);
    REQUIRE(naive.makespan.has_value() == simulation.complete);
    if (dispatch == Dispatch::static_) {
      const auto evaluated = search::makespan_of(table, timing);
      REQUIRE(evaluated.has_value() == simulation.complete);
      if (evaluated) REQUIRE(*evaluated == simulation.makespan);
    }
    if (!simulation.complete) {
      ++hanging;
      REQUIRE_FALSE(verification.liveness.cycle.empty());
      for (const Wait& wait : verification.liveness.cycle)
        dkv_cycles += wait.dkv ? 1 : 0;
      static_cast<void>(sim::timeline(table, timing, simulation));
      continue;
    }
    ++finished;
    REQUIRE(*naive.makespan == simulation.makespan);
    for (std::size_t index = 0; index < naive.reduce_start.size(); ++index)
      REQUIRE(naive.reduce_start[index] == simulation.reduce_start[index]);
    check_finished(table, timing, simulation);
    const Table read = read_table_json(write_table_json(table), "json");
    REQUIRE(read.slots == table.slots);
    REQUIRE(read.dkv_ranks == table.dkv_ranks);
    REQUIRE(read.problem.span == problem.span);
    REQUIRE(read.problem.combine == problem.combine);
    REQUIRE(table_digest(read) == table_digest(table));
    const Table csv = read_table_csv(write_table_csv(table), "csv", nullptr);
    REQUIRE(csv.slots == table.slots);
    REQUIRE(csv.dkv_ranks == table.dkv_ranks);
  }
  CHECK(finished > 1'000);
  CHECK(hanging > 300);
  CHECK(dkv_cycles > 100);
}

TEST_CASE("Lemma 1 counts the second accumulation's edges too, where chains are isomorphic") {
  test::Random random(test::seed(151));
  std::int64_t premises = 0;
  std::int64_t violated = 0;
  for (int round = 0; round < 4'000; ++round) {
    const std::int64_t n = random.between(1, 3);
    const std::int64_t group = random.between(2, 3);
    const Problem problem =
        make_problem(make_mask("full"), {random.between(1, 3), n}, {}, group, n * group,
                     {.heads_kv = 1, .span = 1, .combine = Combine::ordered});
    Table table = test::random_live_table(random, problem, Dispatch::static_);
    if (random.chance(2)) test::shuffle_dkv_ranks(random, table);
    const Timing timing{.reduce_kv = random.between(1, 4)};
    if (dag::verify(table, timing).verdict != dag::Verdict::ok) continue;
    const dag::Lemma1 lemma = dag::check_lemma1(table, timing, 100, false);
    if (!lemma.premise) continue;
    ++premises;
    violated += lemma.monotone ? 0 : 1;
    // A lane on its own.
    Ticks longest = 0;
    for (Lane lane{0}; lane.value < table.lanes(); ++lane) {
      Ticks length = 0;
      for (std::int64_t at = table.begin_of(lane); at < table.end_of(lane); ++at)
        length += 6 + (table.ends_chain(lane, at) ? timing.reduce_kv : 0);
      longest = std::max(longest, length);
    }
    CAPTURE(round);
    REQUIRE(lemma.monotone == (sim::simulate(table, timing).makespan == longest));
  }
  CHECK(premises > 50);
  CHECK(violated > 20);
}

TEST_CASE("named schedules never hang for the order of the second accumulation") {
  test::Random random(test::seed(152));
  std::int64_t tables = 0;
  for (int round = 0; round < 250; ++round) {
    Problem problem = test::with_random_groups(random, test::any_problem(random, 4), 4);
    if (problem.combine != Combine::ordered) continue;
    Problem without = problem;
    without.combine = Combine::partials;
    const Timing timing =
        test::with_random_combination(random, test::random_timing(random, problem));
    for (const schedules::Schedule* schedule : schedules::all()) {
      schedules::Selection selection = schedules::select(schedule->name);
      if (selection.parameters.contains("effort")) selection.parameters["effort"] = 0;
      if (schedules::why_unsupported(selection, problem)) continue;
      CAPTURE(round, schedule->name, problem.heads, problem.heads_kv, problem.span, problem.sms);
      const Table table = schedules::build(selection, problem, timing);
      const auto verdict = dag::verify(table, timing).verdict;
      REQUIRE(verdict != dag::Verdict::invalid);
      const Table other = schedules::build(selection, without, timing);
      const bool hangs_anyway = dag::verify(other, timing).verdict != dag::Verdict::ok;
      // What another part waits for may be a lock that is held until the chain's next reduction, or
      // a lane that has no SM.
      const bool all_resident = timing.residency == 0 || timing.residency >= problem.sms;
      const bool may_hang = hangs_anyway || timing.release == Release::delayed || !all_resident;
      REQUIRE((may_hang || verdict == dag::Verdict::ok));
      const auto naive = test::naive_makespan(table, timing);
      REQUIRE(naive.has_value() == (verdict == dag::Verdict::ok));
      if (naive) REQUIRE(*naive == sim::simulate(table, timing).makespan);
      ++tables;
    }
  }
  CHECK(tables > 300);
}

}  // namespace
}  // namespace stagger
