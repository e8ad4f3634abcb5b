// Lifting: what holds of a table of parts holds of the table of their heads.

#include "core/span.hpp"
#include "dag/bounds.hpp"
#include "dag/lemma1.hpp"
#include "dag/verify.hpp"
#include "schedules/lift.hpp"
#include "schedules/schedule.hpp"
#include "sim/simulate.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/naive.hpp"
#include "tests/support/random.hpp"

#include <algorithm>
#include <string>
#include <string_view>

namespace stagger::schedules {
namespace {

Problem grouped(const char* mask, std::int64_t n, std::int64_t heads_kv, std::int64_t group,
                std::int64_t span = 0, std::int64_t sms = 0) {
  return make_problem(make_mask(mask), {n, n}, {}, heads_kv * group, sms,
                      {.heads_kv = heads_kv, .span = span == 0 ? group : span});
}

Ticks makespan_of(const char* schedule, const Problem& problem, const Timing& timing) {
  const Table table = build(select(schedule), problem, timing);
  REQUIRE(dag::verify(table, timing).verdict == dag::Verdict::ok);
  return sim::simulate(table, timing).makespan;
}

TEST_CASE("q-major hides a latency of c + (g-1)(c+r), head-major one of c") {
  struct Row {
    const char* mask;
    const char* schedule;
    Model model;
    Ticks latency;
    Ticks ticks;
  };
  const Row rows[] = {
      {"full", "shift", Model::chain, 0, 384},
      {"full", "shift", Model::chain, 23, 384},
      {"full", "shift", Model::chain, 24, 398},
      {"full", "shift", Model::chain, 30, 482},
      {"full", "shift:order=head-major", Model::chain, 5, 384},
      {"full", "shift:order=head-major", Model::chain, 6, 440},
      {"full", "shift:order=head-major", Model::chain, 12, 776},
      {"full", "shift:order=head-major", Model::chain, 23, 1392},
      {"causal", "symmetric-shift", Model::chain, 0, 216},
      {"causal", "symmetric-shift", Model::chain, 23, 216},
      {"causal", "symmetric-shift", Model::chain, 24, 222},
      {"causal", "symmetric-shift:order=head-major", Model::chain, 6, 231},
      {"causal", "symmetric-shift:order=head-major", Model::chain, 12, 321},
      {"causal", "symmetric-shift:order=head-major", Model::chain, 23, 486},
      {"full", "shift", Model::overlap, 12, 321},
      {"full", "shift:order=head-major", Model::overlap, 6, 405},
      {"full", "shift:order=head-major", Model::overlap, 12, 741},
      {"causal", "symmetric-shift", Model::overlap, 12, 181},
      {"causal", "symmetric-shift:order=head-major", Model::overlap, 6, 195},
      {"causal", "symmetric-shift:order=head-major", Model::overlap, 12, 285},
  };
  for (const auto& [mask, schedule, model, latency, ticks] : rows) {
    CAPTURE(mask, schedule, latency);
    const Timing timing{.model = model, .latency = latency};
    const Table table = build(select(schedule), grouped(mask, 8, 2, 4), timing);
    CHECK(sim::simulate(table, timing).makespan == ticks);
    CHECK(test::naive_makespan(table, timing) == ticks);
  }
}

TEST_CASE("the epilogues of a group are one") {
  const Timing timing{.compute = 41, .reduce = 12, .epilogue = 30};
  CHECK(makespan_of("symmetric-shift", grouped("causal", 32, 8, 4), timing) == 28'224);
  CHECK(makespan_of("symmetric-shift", grouped("causal", 32, 32, 1), timing) == 28'944);
}

TEST_CASE("a lifted table of a collision-free one is g times as long, without a violation") {
  std::int64_t lifted = 0;
  for (const auto& [mask, schedule] :
       {std::pair{"full", "shift"}, std::pair{"causal", "head-blocks"},
        std::pair{"causal", "symmetric-shift"}}) {
    for (std::int64_t n = 2; n <= 12; ++n) {
      for (std::int64_t heads_kv = 1; heads_kv <= 4; ++heads_kv) {
        for (const std::int64_t group : {2, 3, 4, 8}) {
          const Problem problem = grouped(mask, n, heads_kv, group);
          if (why_unsupported(select(schedule), problem)) continue;
          CAPTURE(schedule, n, heads_kv, group);
          const Table table = build(select(schedule), problem);
          const dag::Verification verification = dag::verify(table, {});
          REQUIRE(verification.verdict == dag::Verdict::ok);
          const Ticks makespan = sim::simulate(table, {}).makespan;
          // Of parts whose tasks take a round each.
          const Timing round{.compute = 0, .reduce = 1};
          const Table parts = build(select(schedule), problem_of_parts(problem), round);
          REQUIRE(makespan == group * 6 * sim::simulate(parts, round).makespan);
          const dag::Lemma1 lemma = dag::check_lemma1(table, {}, 10, false);
          REQUIRE((!lemma.premise || lemma.violation_count == 0));
          const Formula* formula = claim(select(schedule), problem, {});
          REQUIRE(formula != nullptr);
          REQUIRE(twice_ticks(*formula, problem, {}) == 2 * makespan);
          ++lifted;
        }
      }
    }
  }
  CHECK(lifted == (11 + 11 + 6) * 4 * 4);
}

TEST_CASE("grouped symmetric shift takes ceil(M/2) g (n+1)(c+r) in both orders") {
  for (std::int64_t n = 2; n <= 12; n += 2) {
    for (std::int64_t heads_kv = 1; heads_kv <= 4; ++heads_kv) {
      for (std::int64_t group = 1; group <= 8; ++group) {
        for (const auto& [c, r] : {std::pair{5, 1}, std::pair{2, 3}, std::pair{0, 1}}) {
          CAPTURE(n, heads_kv, group, c, r);
          const Timing timing{.compute = c, .reduce = r};
          const Problem problem = grouped("causal", n, heads_kv, group);
          const Ticks claimed = (heads_kv + 1) / 2 * group * (n + 1) * (c + r);
          REQUIRE(makespan_of("symmetric-shift", problem, timing) == claimed);
          if (group == 1) continue;
          REQUIRE(makespan_of("symmetric-shift:order=head-major", problem, timing) == claimed);
        }
      }
    }
  }
  CHECK(makespan_of("head-blocks", grouped("causal", 8, 3, 4), {}) == 336);
}

/// A schedule with its effort and windows as small as they can be.
Selection quick(const Schedule& schedule, HeadOrder order) {
  Selection selection = select(schedule.name);
  selection.parameters["order"] = static_cast<int>(order);
  if (selection.parameters.contains("effort")) selection.parameters["effort"] = 0;
  if (selection.parameters.contains("heads")) selection.parameters["heads"] = 1;
  return selection;
}

TEST_CASE("a part's task takes as long as those of its heads, one after the other") {
  test::Random random(test::seed(142));
  std::int64_t partial = 0;
  for (int round = 0; round < 300; ++round) {
    // One SM, one KV tile: nothing waits for a turn.
    std::string row;
    for (std::int64_t q = random.between(1, 5); q > 0; --q)
      row += "fp"[random.between(0, 1)];
    const auto span = static_cast<std::int32_t>(random.between(1, 4));
    Problem problem = test::tiles_problem({row}, span, 1);
    problem.heads_kv = 1;
    problem = with_span(std::move(problem), span, Combine::none);
    Timing timing{.compute = random.between(1, 6)};
    timing.reduce = random.between(0, timing.compute);
    if (random.chance(2))
      timing.compute_partial = random.between(std::max<Ticks>(timing.reduce, 1), 9);
    // A reduction beside the next compute phase is never longer than that.
    if (random.chance(2)) timing.model = Model::overlap;
    partial += timing.compute_partial ? 1 : 0;
    CAPTURE(round, row, span, timing.compute, timing.reduce);
    const Selection selection = quick(*select("ascending").schedule, HeadOrder::q_major);
    const Timing of_parts = timing_of_parts(timing, span);
    const Table table = build(selection, problem, timing);
    const Table parts = build(selection, problem_of_parts(problem), of_parts);
    REQUIRE(table.slots.size() == parts.slots.size() * static_cast<std::size_t>(span));
    REQUIRE(sim::simulate(table, timing).makespan == sim::simulate(parts, of_parts).makespan);
  }
  CHECK(partial > 50);
}

TEST_CASE("every schedule lifts in q-major order: what runs as parts runs as heads") {
  test::Random random(test::seed(140));
  std::int64_t tables = 0;
  for (int round = 0; round < 150; ++round) {
    const Problem problem = test::with_random_groups(random, test::any_problem(random, 4), 4);
    const Timing timing = test::random_timing(random, problem);
    for (const Schedule* schedule : all()) {
      const Selection selection = quick(*schedule, HeadOrder::q_major);
      CAPTURE(round, schedule->name, problem.heads, problem.heads_kv, problem.span);
      if (why_unsupported(selection, problem)) continue;
      if (problem.combine == Combine::ordered) continue;
      const Table table = build(selection, problem, timing);
      const auto verification = dag::verify(table, timing);
      REQUIRE(verification.verdict != dag::Verdict::invalid);
      const Table parts =
          build(selection, problem_of_parts(problem), timing_of_parts(timing, problem.span));
      const auto of_parts = dag::verify(parts, timing).verdict;
      if (of_parts == dag::Verdict::ok) REQUIRE(verification.verdict == dag::Verdict::ok);
      const auto simulation = sim::simulate(table, timing);
      REQUIRE(simulation.complete == (verification.verdict == dag::Verdict::ok));
      const auto naive = test::naive_makespan(table, timing);
      REQUIRE(naive.has_value() == simulation.complete);
      if (!naive) continue;
      REQUIRE(*naive == simulation.makespan);
      REQUIRE(dag::lower_bounds(problem, timing, table.dispatch).best.ticks <= *naive);
      ++tables;
    }
  }
  CHECK(tables > 500);
}

TEST_CASE(
    "head-major order of a named schedule is legal, and seldom hangs where q-major does not") {
  test::Random random(test::seed(141));
  std::int64_t tables = 0;
  std::int64_t hang = 0;
  for (int round = 0; round < 400; ++round) {
    const Problem problem = test::with_random_groups(random, test::any_problem(random, 5), 4);
    if (problem.span == 1 || problem.combine == Combine::ordered) continue;
    const Timing timing = test::random_timing(random, problem);
    for (const Schedule* schedule : all()) {
      if (schedule->searches()) continue;
      const Selection selection = quick(*schedule, HeadOrder::head_major);
      CAPTURE(round, schedule->name, problem.heads, problem.heads_kv, problem.span,
              problem.kv_tiles(), problem.q_tiles(), problem.sms);
      if (why_unsupported(selection, problem)) continue;
      const Table table = build(selection, problem, timing);
      const auto verdict = dag::verify(table, timing).verdict;
      REQUIRE(verdict != dag::Verdict::invalid);
      REQUIRE((verdict == dag::Verdict::ok) == sim::simulate(table, timing).complete);
      const Table other = build(quick(*schedule, HeadOrder::q_major), problem, timing);
      const bool other_ends = dag::verify(other, timing).verdict == dag::Verdict::ok;
      hang += static_cast<int>(other_ends && verdict != dag::Verdict::ok);
      ++tables;
    }
  }
  CHECK(tables > 500);
  CHECK(hang < tables / 20);
}

TEST_CASE("in-order dispatch by group and by member costs what was computed elsewhere") {
  // Makespan / work bound, per mille: causal, 132 SMs, c 41, r 12, latency 14, reduce-kv 24.
  struct Row {
    std::int64_t n, heads, group, span;
    Combine combine;
    const char* schedule;
    Ticks per_mille;
  };
  const Row rows[] = {
      {32, 32, 4, 1, Combine::partials, "spt:swizzle=32", 1125},
      {32, 32, 4, 1, Combine::partials, "lpt-descending:swizzle=32", 1016},
      {32, 32, 4, 1, Combine::ordered, "spt:swizzle=32", 1214},
      {32, 32, 4, 1, Combine::ordered, "lpt-descending:swizzle=32", 1113},
      {32, 32, 4, 1, Combine::ordered, "spt:swizzle=8,launch=member", 1150},
      {32, 32, 4, 1, Combine::ordered, "lpt-descending:swizzle=8,launch=member", 1090},
      {32, 32, 4, 4, Combine::none, "spt:swizzle=8", 1500},
      {32, 32, 4, 4, Combine::none, "spt:swizzle=8,order=head-major", 1500},
      {32, 32, 4, 4, Combine::none, "lpt-descending:swizzle=8", 1061},
      {32, 32, 4, 4, Combine::none, "lpt-descending:swizzle=8,order=head-major", 1436},
      {64, 32, 4, 1, Combine::partials, "lpt-descending:swizzle=32", 1003},
      {64, 32, 4, 1, Combine::ordered, "lpt-descending:swizzle=32", 1050},
      {64, 32, 4, 1, Combine::ordered, "lpt-descending:swizzle=8,launch=member", 1028},
      {64, 32, 4, 4, Combine::none, "lpt-descending:swizzle=8", 1014},
      {64, 32, 4, 4, Combine::none, "lpt-descending:swizzle=8,order=head-major", 1197},
      {64, 28, 7, 1, Combine::partials, "lpt-descending:swizzle=28", 1003},
      {64, 28, 7, 1, Combine::ordered, "lpt-descending:swizzle=28", 1083},
      {64, 28, 7, 1, Combine::ordered, "lpt-descending:swizzle=4,launch=member", 1048},
      {64, 28, 7, 7, Combine::none, "lpt-descending:swizzle=4", 1033},
      {64, 28, 7, 7, Combine::none, "lpt-descending:swizzle=4,order=head-major", 1468},
      {64, 8, 8, 1, Combine::partials, "lpt-descending:swizzle=8", 1054},
      {64, 8, 8, 1, Combine::ordered, "lpt-descending:swizzle=8", 1149},
      {64, 8, 8, 8, Combine::none, "lpt-descending", 4031},
      {64, 8, 8, 8, Combine::none, "lpt-descending:order=head-major", 4031},
  };
  const Timing timing{.compute = 41, .reduce = 12, .latency = 14, .reduce_kv = 24};
  for (const auto& [n, heads, group, span, combine, schedule, per_mille] : rows) {
    CAPTURE(n, heads, group, schedule, static_cast<int>(combine));
    const Problem problem =
        make_problem(make_mask("causal"), {n, n}, {}, heads, 132,
                     {.heads_kv = heads / group, .span = span, .combine = combine});
    const Ticks makespan = sim::simulate(build(select(schedule), problem, timing), timing).makespan;
    const Ticks work = (problem.tasks() + 131) / 132 * 53;
    CHECK((1000 * makespan + work / 2) / work == per_mille);
  }
}

TEST_CASE("order=head-major is for chains of several heads") {
  const auto why = [](const char* text, const Problem& problem) {
    return why_unsupported(select(text), problem).value_or("");
  };
  CHECK(why("shift:order=head-major", grouped("full", 4, 2, 1)).find("has one") !=
        std::string::npos);
  CHECK(why("shift:order=q-major", grouped("full", 4, 2, 1)).empty());
  CHECK(why("shift:order=head-major", grouped("full", 4, 2, 2)).empty());
}

}  // namespace
}  // namespace stagger::schedules
