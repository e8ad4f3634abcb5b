// The oracle test: every schedule on every problem, three answers that share no code. A schedule
// is tested by being in the registry.

#include "core/error.hpp"
#include "dag/bounds.hpp"
#include "dag/lemma1.hpp"
#include "dag/longest_path.hpp"
#include "dag/verify.hpp"
#include "schedules/schedule.hpp"
#include "sim/bubbles.hpp"
#include "sim/critical_path.hpp"
#include "sim/simulate.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/naive.hpp"
#include "tests/support/random.hpp"

namespace stagger {
namespace {

struct Counts {
  std::int64_t tables = 0;
  std::int64_t hanging = 0;
  std::int64_t claims = 0;
  std::int64_t premises = 0;
};

Ticks sum_of(const CriticalPath& path) {
  Ticks covered = 0;
  for (const CriticalStep& step : path.steps) {
    CHECK(step.start == covered);
    covered = step.end;
  }
  return covered;
}

/// The length of the longest lane on its own: the critical path of the paper's G0.
Ticks longest_lane(const Table& table, const Timing& timing) {
  Ticks longest = 0;
  for (Lane lane{0}; lane.value < table.lanes(); ++lane) {
    Ticks length = 0;
    for (std::int64_t slot = table.begin_of(lane); slot < table.end_of(lane); ++slot) {
      length += timing.compute_of(table.problem, table.slots[slot].task) + timing.reduce;
      if (table.begins_chain(lane, slot)) length += timing.launch + timing.epilogue;
    }
    longest = std::max(longest, length);
  }
  return longest;
}

void check_finished(const Table& table, const Timing& timing, const sim::Simulation& simulation,
                    Counts& counts) {
  const auto graph = dag::build(table, timing);
  REQUIRE(graph.has_value());
  const auto times = dag::path_times(*graph);
  REQUIRE(times.has_value());
  REQUIRE(times->length == simulation.makespan);
  REQUIRE(sum_of(dag::critical_path(table, *graph, *times)) == simulation.makespan);
  REQUIRE(sum_of(sim::critical_path(table, timing, simulation)) == simulation.makespan);
  REQUIRE(dag::lower_bounds(table.problem, timing, table.dispatch).best.ticks <=
          simulation.makespan);

  const sim::Bubbles bubbles = sim::bubbles(table, timing, simulation);
  REQUIRE(bubbles.startup >= 0);
  REQUIRE(bubbles.order >= 0);
  REQUIRE(bubbles.tail >= 0);
  REQUIRE(bubbles.last.startup + bubbles.last.order + bubbles.last.busy == simulation.makespan);
  if (timing.model == Model::chain) {
    std::int64_t chains = 0;
    Ticks computing = 0;
    for (Lane lane{0}; lane.value < table.lanes(); ++lane) {
      for (std::int64_t slot = table.begin_of(lane); slot < table.end_of(lane); ++slot) {
        chains += table.begins_chain(lane, slot) ? 1 : 0;
        computing += timing.compute_of(table.problem, table.slots[slot].task);
      }
    }
    REQUIRE(bubbles.busy == computing + table.problem.tasks() * timing.reduce +
                                chains * (timing.launch + timing.epilogue));
  }

  const dag::Lemma1 lemma = dag::check_lemma1(table, timing, 10, true);
  if (lemma.premise) {
    ++counts.premises;
    REQUIRE(lemma.monotone == (simulation.makespan == longest_lane(table, timing)));
  }
}

void check_table(const Table& table, const Timing& timing, Counts& counts) {
  ++counts.tables;
  const dag::Verification verification = dag::verify(table, timing);
  REQUIRE(verification.verdict != dag::Verdict::invalid);
  const sim::Simulation simulation = sim::simulate(table, timing);
  REQUIRE(simulation.complete == (verification.verdict == dag::Verdict::ok));
  if (simulation.complete) {
    check_finished(table, timing, simulation, counts);
    return;
  }
  ++counts.hanging;
  REQUIRE_FALSE(verification.liveness.cycle.empty());
  REQUIRE(verification.liveness.starved.empty());
  const auto graph = table.problem.tasks() > 60 ? std::nullopt : dag::build(table, timing);
  if (graph) REQUIRE_FALSE(dag::path_times(*graph).has_value());
}

/// `group`: heads of a swizzle and of a window.
void check_problem(const Problem& problem, const Timing& timing, std::int64_t group,
                   Counts& counts) {
  for (const schedules::Schedule* schedule : schedules::all()) {
    schedules::Selection selection = schedules::select(schedule->name);
    if (selection.parameters.contains("swizzle")) selection.parameters["swizzle"] = group;
    if (selection.parameters.contains("heads")) selection.parameters["heads"] = group;
    if (selection.parameters.contains("effort")) selection.parameters["effort"] = 0;
    CAPTURE(schedule->name, problem.mask.family->name, problem.kv_tiles(), problem.q_tiles(),
            problem.heads, problem.sms, group, timing.model == Model::overlap, timing.compute,
            timing.reduce, timing.latency, timing.launch, timing.epilogue, timing.residency,
            timing.release == Release::delayed);
    if (schedules::why_unsupported(selection, problem)) {
      REQUIRE_THROWS_AS(schedules::build(selection, problem), Error);
      continue;
    }
    const Table table = schedules::build(selection, problem, timing);
    check_table(table, timing, counts);
    if (const schedules::Formula* formula = schedules::claim(selection, problem, timing)) {
      ++counts.claims;
      REQUIRE(formula->twice_ticks(problem, timing) == 2 * sim::simulate(table, timing).makespan);
    }
  }
}

TEST_CASE("longest path, simulated makespan and formula agree on every small problem") {
  Counts counts;
  for (const char* mask : {"full", "causal"}) {
    for (std::int64_t n_kv = 1; n_kv <= 6; ++n_kv) {
      for (std::int64_t n_q = 1; n_q <= 6; ++n_q) {
        for (std::int64_t heads = 1; heads <= 3; ++heads) {
          for (const std::int64_t sms : {n_kv, n_kv - 1, n_kv / 2, n_kv + 2}) {
            if (sms < 1) continue;
            const Problem problem = make_problem(make_mask(mask), {n_q, n_kv}, {}, heads, sms);
            for (const auto& [compute, reduce] :
                 {std::pair{5, 1}, std::pair{1, 1}, std::pair{2, 3}}) {
              for (const Model model : {Model::chain, Model::overlap}) {
                check_problem(problem, {.model = model, .compute = compute, .reduce = reduce}, 1,
                              counts);
              }
            }
          }
        }
      }
    }
  }
  CHECK(counts.tables > 20'000);
  CHECK(counts.claims > 700);
  CHECK(counts.premises > 3'000);
}

TEST_CASE("they agree on random problems under every option of the model") {
  Counts counts;
  test::Random random(42);
  for (int round = 0; round < 3'000; ++round) {
    CAPTURE(round);
    const Problem problem = test::any_problem(random, 7);
    check_problem(problem, test::random_timing(random, problem), random.between(1, 3), counts);
  }
  CHECK(counts.tables > 20'000);
  CHECK(counts.hanging > 100);
}

TEST_CASE("a tick-by-tick play of the rules agrees too") {
  test::Random random(43);
  std::int64_t finished = 0;
  for (int round = 0; round < 300; ++round) {
    const Problem problem = test::any_problem(random, 4);
    const Timing timing = test::random_timing(random, problem);
    for (const schedules::Schedule* schedule : schedules::all()) {
      schedules::Selection selection = schedules::select(schedule->name);
      if (schedules::why_unsupported(selection, problem)) continue;
      if (selection.parameters.contains("effort")) selection.parameters["effort"] = 0;
      CAPTURE(round, schedule->name);
      const Table table = schedules::build(selection, problem, timing);
      const auto naive = test::naive_makespan(table, timing);
      const sim::Simulation simulation = sim::simulate(table, timing);
      REQUIRE(naive.has_value() == simulation.complete);
      if (naive) REQUIRE(*naive == simulation.makespan);
      finished += naive ? 1 : 0;
    }
  }
  CHECK(finished > 1'500);
}

TEST_CASE("schedules whose ranks follow the launch order run at any residency and release") {
  test::Random random(5);
  std::int64_t tables = 0;
  for (int round = 0; round < 500; ++round) {
    const Problem problem = test::any_problem(random, 6);
    Timing timing;
    timing.release = random.chance(2) ? Release::delayed : Release::immediate;
    timing.residency = 1;
    for (const schedules::Schedule* schedule : schedules::all()) {
      if (schedule->dispatch != Dispatch::in_order) continue;
      const Table table = schedules::build(schedules::select(schedule->name), problem);
      CAPTURE(round, schedule->name);
      const dag::Verification verification = dag::verify(table, timing);
      REQUIRE(verification.verdict == dag::Verdict::ok);
      REQUIRE(verification.liveness.residency_needed <= 1);
      ++tables;
    }
  }
  const auto in_order =
      std::count_if(schedules::all().begin(), schedules::all().end(),
                    [](const auto* schedule) { return schedule->dispatch == Dispatch::in_order; });
  CHECK(in_order >= 5);
  CHECK(tables == 500 * in_order);
}

}  // namespace
}  // namespace stagger
