#include "workbench/comparison.hpp"

#include "core/files.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/refusal.hpp"

#include <atomic>
#include <optional>
#include <tuple>
#include <vector>

namespace stagger::workbench {
namespace {

Problem causal(std::int64_t n, std::int64_t heads) {
  return make_problem(make_mask("causal"), {n, n}, {}, heads, 0);
}

Source scheduled(const char* schedule, const Problem& problem, const TimeModel& model = {}) {
  return workbench::source_of(schedules::select(schedule), problem, model);
}

TEST_CASE("an analysis holds what is known of a table") {
  const Analysis analysis = analyze(scheduled("symmetric-shift", causal(8, 4)));
  CHECK(analysis.ok());
  CHECK(analysis.makespan == 108);
  CHECK(analysis.longest_path == 108);
  CHECK(analysis.critical_path.length == 108);
  CHECK(analysis.last_reduction == 108);
  CHECK(analysis.optimal == true);
  CHECK(analysis.formula_holds());
  CHECK(timeline_of(analysis).makespan == 108);
}

TEST_CASE("a gap is packing, contention and startup") {
  for (const char* schedule : {"descending", "spt", "ascending", "lpt-ascending"}) {
    CAPTURE(schedule);
    const Analysis analysis = analyze(scheduled(schedule, causal(7, 3)));
    const Gap gap = analysis.gap();
    CHECK(gap.packing + gap.contention + gap.startup ==
          analysis.makespan - analysis.bounds.best.ticks);
    CHECK(analysis.bubble_fraction() > 0);
    CHECK(analysis.bubble_fraction() < 1);
  }
}

TEST_CASE("a comparison has a row for every schedule and all of the best") {
  const Comparison comparison = compare({.problem = causal(8, 4)});
  REQUIRE(comparison.rows.size() == schedules::all().size());
  REQUIRE(comparison.best.has_value());
  CHECK(comparison.best->makespan == 108);
  CHECK(comparison.best->table.problem.tasks() == 144);
  std::size_t beaten = 0;
  for (const ComparisonRow& row : comparison.rows) {
    CAPTURE(row.name);
    CHECK(row.unsupported.empty() == row.summary.has_value());
    if (!row.summary) continue;
    const Analysis alone = analyze(scheduled(row.name.c_str(), comparison.problem));
    CHECK(row.summary->makespan == alone.makespan);
    CHECK(row.summary->verification.verdict == alone.verification.verdict);
    if (row.summary->makespan == 108) continue;
    CHECK(row.summary->optimal == false);  // another one is shorter
    ++beaten;
  }
  CHECK(beaten > 3);
}

TEST_CASE("a table is compared beside the schedules") {
  Table own = scheduled("spt", causal(6, 2)).table;
  own.name = "mine";
  const Comparison comparison = compare({.problem = causal(6, 2), .tables = {own}});
  REQUIRE(comparison.rows.size() == schedules::all().size() + 1);
  const ComparisonRow* const row = comparison.find("mine");
  REQUIRE(row != nullptr);
  REQUIRE(row->summary.has_value());
  CHECK_FALSE(row->summary->selection.has_value());
  CHECK(row->summary->makespan == analyze(scheduled("spt", causal(6, 2))).makespan);
}

TEST_CASE("rows are by makespan, then what is wrong, then what does not apply") {
  Table wrong = scheduled("spt", causal(6, 2)).table;
  wrong.slots[0].rank = 5;
  wrong.name = "wrong";
  const Comparison comparison = compare({.problem = causal(6, 2), .tables = {wrong}});
  int kind = 0;
  Ticks last = 0;
  for (const ComparisonRow& row : comparison.rows) {
    CAPTURE(row.name);
    const int its_kind = row.ok() ? 0 : row.summary ? 1 : 2;
    CHECK(its_kind >= kind);
    if (its_kind == 0) CHECK(row.summary->makespan >= last);
    if (its_kind == 1) CHECK(row.name == "wrong");
    kind = its_kind;
    last = row.ok() ? row.summary->makespan : last;
  }
  CHECK(kind == 2);
  REQUIRE(comparison.best.has_value());
  CHECK(comparison.best->name == comparison.rows.front().name);
  std::size_t as_short = 0;
  for (const ComparisonRow& row : comparison.rows) {
    if (row.ok() && row.summary->makespan == comparison.best->makespan) ++as_short;
  }
  CHECK(comparison.ties().size() + 1 == as_short);
  CHECK(as_short > 1);
}

TEST_CASE("some schedules are compared, against one of them") {
  const Comparison comparison =
      compare({.problem = causal(8, 4),
               .schedules = {schedules::select("spt:swizzle=2"), schedules::select("ascending"),
                             schedules::select("shift"), schedules::select("optimal")},
               .baseline = "ascending"});
  REQUIRE(comparison.rows.size() == 4);
  CHECK(comparison.rows[0].name == "optimal");
  CHECK(comparison.rows[1].name == "spt:swizzle=2");
  CHECK(comparison.rows[3].name == "shift");
  CHECK(comparison.speedup(comparison.rows[0]) == 199.0 / 108);
  CHECK(comparison.speedup(*comparison.find("ascending")) == 1);
  CHECK_FALSE(comparison.speedup(comparison.rows[3]).has_value());
  CHECK_FALSE(compare({.problem = causal(4, 1)}).speedup(comparison.rows[0]).has_value());
  // Nothing is faster or slower than what takes no time.
  ComparisonRequest nothing{
      .problem =
          make_problem(read_mask_json(R"({"kind": "tiles", "rows": ["..", ".."]})", "nothing"),
                       {2, 2}, {}, 1, 0)};
  nothing.baseline = "spt";
  const Comparison at_once = compare(nothing);
  REQUIRE(at_once.find("spt")->summary->makespan == 0);
  for (const ComparisonRow& row : at_once.rows)
    CHECK_FALSE(at_once.speedup(row).has_value());
}

TEST_CASE("a table on fewer SMs is optimal if no table on all of them can be shorter") {
  std::vector<std::tuple<const char*, std::int64_t, std::int64_t, std::int64_t>> fewer;
  for (const char* mask : {"causal", "full"}) {
    for (std::int64_t n = 2; n <= 5; ++n) {
      for (std::int64_t heads = 1; heads <= 4; ++heads) {
        for (std::int64_t sms = n - 1; sms <= 2 * n + 1; ++sms)
          fewer.emplace_back(mask, n, heads, sms);
      }
    }
  }
  int at_bound = 0;
  int above = 0;
  for (const auto& [mask, n, heads, sms] : fewer) {
    for (const schedules::Schedule* schedule : schedules::all()) {
      if (schedule->searches()) continue;
      ComparisonRequest request{.problem = make_problem(make_mask(mask), {n, n}, {}, heads, sms)};
      request.schedules = {schedules::select(schedule->name)};  // nothing beats it
      request.invariant = true;
      for (const ComparisonRow& row : compare(request).rows) {
        if (!row.summary || !row.summary->ok() || row.summary->sms == sms) continue;
        const Summary& summary = *row.summary;
        CAPTURE(mask, n, heads, sms, row.name, summary.makespan, summary.bounds.best.ticks);
        const bool reached = summary.makespan == summary.bounds.best.ticks;
        CHECK(summary.optimal == (reached ? std::optional(true) : std::nullopt));
        (reached ? at_bound : above) += 1;
      }
    }
  }
  CHECK(at_bound > 0);
  CHECK(above > 15);
}

TEST_CASE("what is beaten is not optimal, whatever its dispatch's bound") {
  const Problem problem = make_problem(make_mask("causal"), {7, 7}, {}, 1, 3);
  const Comparison comparison =
      compare({.problem = problem, .model = {.timing = {.model = Model::overlap}}});
  bool differs = false;
  for (const ComparisonRow& row : comparison.rows) {
    if (!row.ok()) continue;
    CAPTURE(row.name);
    CHECK((row.summary->optimal == true) == (row.summary->makespan == 51));
    differs = differs || row.summary->bounds.best.ticks != 51;
  }
  CHECK(differs);
}

TEST_CASE("a comparison that is stopped has the rows that were ready") {
  std::atomic<int> asked = 0;
  const Comparison some = compare({.problem = causal(6, 2), .stop = [&] { return ++asked > 3; }});
  CHECK(some.rows.size() == 3);
  CHECK(some.missing == std::ssize(schedules::all()) - 3);
  CHECK(some.best.has_value());
  // A row that is begun ends with what its search has by then.
  asked = 0;
  const Comparison cut = compare({.problem = causal(21, 5),
                                  .schedules = {schedules::select("optimal:effort=100000")},
                                  .stop = [&] { return ++asked > 1; }});
  CHECK(cut.rows.size() == 1);
  CHECK(cut.missing == 0);
  CHECK(cut.best.has_value());
  const Comparison none = compare({.problem = causal(6, 2), .stop = [] { return true; }});
  CHECK(none.rows.empty());
  CHECK_FALSE(none.best.has_value());
}

TEST_CASE("more tasks than two tables may have are not compared, nor more than a search may have") {
  // Each task is a chain's and counts for it.
  const auto said = [](std::int64_t tiles, std::int64_t more) {
    return make_problem(make_mask("full"), {tiles, tiles + more}, {}, 1, 4);
  };
  const Problem compared = said(5'793, 0);  // 33,558,849 tasks: above 2^25
  CHECK(
      test::message_of([&] { static_cast<void>(compare({.problem = compared})); }, ErrorKind::limit)
          .ends_with("a comparison keeps two tables, of 33554432 tasks and chains at most"));
  const Problem chains = make_problem(make_mask("full"), {1, 8'192}, {}, 2'049, 4);
  REQUIRE(chains.tasks() < 1 << 25);
  CHECK_THROWS_AS(compare({.problem = chains}), Error);
  const Problem searched = said(6'690, 0);  // 44,756,100 tasks
  const schedules::Selection optimal = schedules::select("optimal:effort=0");
  CHECK(test::message_of([&] { static_cast<void>(source_of(optimal, searched)); }, ErrorKind::limit)
            .ends_with("at most 44739242 tasks and chains"));
}

TEST_CASE("what is known of a table has its dispatch, and where it is ordered though it hangs") {
  const Problem problem = make_problem(make_mask("causal"), {4, 4}, {}, 2, 3);
  for (const char* name : {"ascending", "spt"}) {
    Source source = source_of(schedules::select(name), problem);
    const Dispatch dispatch = source.table.dispatch;
    Source hangs = source;
    const Analysis analysis = analyze(std::move(source));
    CHECK(analysis.dispatch == dispatch);
    CHECK(analysis.ordered());
    hangs.table.slots.front().rank = 1;
    CHECK_FALSE(analyze(std::move(hangs)).ordered());  // two have a rank, and none another
  }
  // Each of two chains begins with what the other one has to do first: a deadlock, and in order.
  Table table;
  table.problem = make_problem(make_mask("full"), {2, 2}, {}, 1, 2);
  for (const std::int32_t kv : {0, 1}) {
    table.slots.push_back({{Head{0}, KvTile{kv}, QTile{kv}}, 1});
    table.slots.push_back({{Head{0}, KvTile{kv}, QTile{1 - kv}}, 0});
    table.end_lane();
  }
  const Analysis stuck = analyze({.table = table, .model = {}, .selection = {}});
  CHECK(stuck.verification.verdict == dag::Verdict::deadlock);
  CHECK(stuck.ordered());
}

TEST_CASE("what was given of a timing model wins over the rest of it") {
  const Timing base{.compute = 9, .compute_partial = 7, .reduce = 3, .latency = 2};
  CHECK(GivenTiming{}.over(base).compute_partial == 7);
  const Timing compute = GivenTiming{.compute = 4}.over(base);
  CHECK(compute.compute == 4);
  CHECK_FALSE(compute.compute_partial.has_value());  // what is given holds for partial tiles too
  CHECK(compute.reduce == 3);
  const Timing both =
      GivenTiming{
          .model = Model::overlap, .compute = 4, .compute_partial = 6, .release = Release::delayed}
          .over(base);
  CHECK(both.model == Model::overlap);
  CHECK(both.compute_partial == 6);
  CHECK(both.release == Release::delayed);
  CHECK(both.latency == 2);
}

TEST_CASE("of a table that takes no time nothing is a bubble, and of a tick of waiting all is") {
  Summary summary;
  CHECK(summary.bubble_fraction() == 0.0);
  summary.bubbles.busy = 1;
  CHECK(summary.bubble_fraction() == 0.0);
  summary.bubbles = {};
  summary.bubbles.startup = 1;
  CHECK(summary.bubble_fraction() == 1.0);
}

}  // namespace
}  // namespace stagger::workbench
