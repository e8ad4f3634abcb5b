#include "workbench/analysis.hpp"

#include "core/error.hpp"
#include "core/limits.hpp"
#include "sim/simulate.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/refusal.hpp"

#include <algorithm>

namespace stagger::workbench {
namespace {

Analysis shift_of(std::int64_t n) {
  return analyze(
      source_of(schedules::select("shift"), make_problem(make_mask("full"), {n, n}, {}, 1, n)));
}

TEST_CASE("a table above two million tasks is analysed without the steps of its path") {
  const Analysis small = shift_of(20);
  CHECK(small.makespan == 20 * 6);
  CHECK(small.critical_path.length == small.makespan);
  CHECK_FALSE(small.critical_path.steps.empty());
  const Timeline drawn = timeline_of(small);
  CHECK(drawn.lower_bound == 20 * 6);
  CHECK(drawn.makespan == small.makespan);
  CHECK(std::ranges::count(drawn.intervals, true, &Interval::critical) ==
        std::ssize(small.critical_path.steps));
  const Analysis large = shift_of(1'415);  // 2,002,225 tasks
  CHECK(large.makespan == 1'415 * 6);
  CHECK(large.critical_path.length == large.makespan);
  CHECK(large.critical_path.steps.empty());
  CHECK_FALSE(large.longest_path.has_value());
  CHECK(test::message_of([&] { static_cast<void>(timeline_of(large)); }, ErrorKind::limit) ==
        "2002225 tasks; at most 2000000 are drawn or listed");
}

/// Chains of one KV tile, as many as SMs: nobody waits, and a task is two steps of the path.
Analysis chains_of(std::int64_t q_tiles, std::int64_t heads, bool graph) {
  const Problem problem = make_problem(make_mask("full"), {q_tiles, 1}, {}, heads, heads);
  return analyze(source_of(schedules::select("lpt-ascending"), problem),
                 {.always_build_graph = graph});
}

TEST_CASE("what is known of a table without its graph is what the graph says") {
  const Problem problem = make_problem(make_mask("causal"), {450, 450}, {}, 1, 60);
  const Timing timing{.model = Model::overlap, .compute = 3, .reduce = 2, .latency = 1};
  const auto analysis = [&](bool graph) {
    return analyze(source_of(schedules::select("descending"), problem, {.timing = timing}),
                   {.always_build_graph = graph});
  };
  const Analysis with = analysis(true);
  const Analysis without = analysis(false);
  CHECK(with.longest_path == with.makespan);
  CHECK_FALSE(without.longest_path.has_value());
  CHECK(without.makespan == with.makespan);
  CHECK(without.phases == with.phases);
  CHECK(without.last_reduction == with.last_reduction);
  CHECK(without.critical_path.length == with.critical_path.length);
  CHECK_FALSE(without.critical_path.steps.empty());
  CHECK(without.bubbles.total() == with.bubbles.total());
  CHECK(without.lemma1.harmful_count == with.lemma1.harmful_count);
  CHECK(without.optimal == with.optimal);
  CHECK(without.gap().packing == with.gap().packing);
}

TEST_CASE("what is played in steps is told by tasks") {
  const Problem problem = make_problem(make_mask("causal"), {8, 8}, {}, 2, 3);
  const TimeModel model{
      .timing = {.model = Model::overlap, .compute = 6, .reduce = 4, .latency = 1, .steps = 2}};
  const Analysis analysis = analyze(source_of(schedules::select("descending"), problem, model));
  CHECK(analysis.longest_path == analysis.makespan);
  CHECK(analysis.critical_path.length == analysis.makespan);
  REQUIRE_FALSE(analysis.critical_path.steps.empty());
  Ticks end = 0;
  for (const CriticalStep& step : analysis.critical_path.steps) {
    CHECK(step.start >= end);
    end = step.end;
    CHECK(problem.live(step.task));
  }
  CHECK(end == analysis.makespan);
  CHECK(analysis.lemma1.dependency_edges == 2 * 2 * (36 - 8));
  REQUIRE(analysis.lemma1.harmful.has_value());
  for (const dag::DependencyEdge& edge : *analysis.lemma1.harmful) {
    CHECK(problem.live(edge.from));
    CHECK(edge.from.q == edge.to.q);
  }
  const Timeline timeline = timeline_of(analysis);
  std::int64_t computed = 0;
  std::int64_t critical = 0;
  for (const Interval& interval : timeline.intervals) {
    CHECK(problem.live(interval.task));
    critical += interval.critical ? 1 : 0;
    if (interval.phase != Phase::compute) continue;
    ++computed;
    CHECK(interval.end - interval.start == 3);
  }
  CHECK(computed == 2 * problem.tasks());
  CHECK(critical > 0);
  CHECK(timeline.makespan == analysis.makespan);
}

TEST_CASE("of a path found without the graph 100,000 steps are kept, and not one more") {
  CHECK(chains_of(50'000, 3, false).critical_path.steps.size() == 100'000);
  CHECK(chains_of(50'001, 3, false).critical_path.steps.empty());
  CHECK(chains_of(50'001, 3, false).critical_path.length == 50'001 * 6);
  CHECK(chains_of(50'001, 3, true).critical_path.steps.size() == 100'002);
}

TEST_CASE("two million tasks are drawn, and not one more") {
  const auto problem = [](std::int64_t q_tiles) {
    return make_problem(make_mask("full"), {q_tiles, 1'000}, {}, 1, 1);
  };
  CHECK_NOTHROW(expect_drawable(problem(2'000)));
  CHECK(test::message_of([&] { expect_drawable(problem(2'001)); }, ErrorKind::limit) ==
        "2001000 tasks; at most 2000000 are drawn or listed");
}

TEST_CASE("only what searches is kept from large problems") {
  // 2731 chains of 16381 tasks: two thirds of the most tasks, tasks and chains together.
  const Problem most = make_problem(make_mask("full"), {.q = 16'381, .kv = 2'731}, {}, 1, 8);
  const Problem more = make_problem(make_mask("full"), {.q = 16'382, .kv = 2'731}, {}, 1, 8);
  REQUIRE(most.tasks() + most.chains() == kMaxTasks / 3 * 2);
  const schedules::Selection searching = schedules::select("optimal");
  REQUIRE(searching.schedule->searches());
  CHECK_NOTHROW(expect_searchable(searching, most));
  CHECK(test::message_of([&] { expect_searchable(searching, more); }, ErrorKind::limit)
            .ends_with("; at most 44739242 tasks and chains"));
  CHECK_NOTHROW(expect_searchable(schedules::select("ascending"), more));
}

TEST_CASE("a chart's times are of the timing model's clock") {
  const Problem problem = make_problem(make_mask("full"), {3, 3}, {}, 1, 3);
  Analysis analysis = analyze(source_of(schedules::select("shift"), problem));
  CHECK(timeline_of(analysis).clock == "ticks");
  analysis.model.clock = Clock::ns;
  CHECK(timeline_of(analysis).clock == "ns");
}

TEST_CASE("a chart's title says what is wrong with the table") {
  const Problem problem = make_problem(make_mask("full"), {3, 3}, {}, 1, 3);
  Source source = source_of(schedules::select("shift"), problem);
  const std::string sound = timeline_of(analyze(source)).title;
  CHECK(sound.ends_with("tasks"));
  source.selection.reset();
  std::swap(source.table.slots[0].rank, source.table.slots[1].rank);
  const Analysis wrong = analyze(source);
  REQUIRE_FALSE(wrong.ok());
  CHECK(timeline_of(wrong).title ==
        sound + " (" + dag::verdict_name(wrong.verification.verdict) + ")");
}

}  // namespace
}  // namespace stagger::workbench
