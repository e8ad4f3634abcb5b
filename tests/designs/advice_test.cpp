// Which design to take: reasons by a comparison made again here, and turns by asking on both sides
// of each.

#include "workbench/designs/advice.hpp"

#include "tests/support/catch.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace stagger::designs {
namespace {

Request heads_request(std::int64_t heads) {
  return {.problem = make_problem(make_mask("causal"), {8, 8}, {}, heads, 8),
          .head_dim = 64,
          .element_bytes = 2};
}

/// The best design of what is asked among all and every schedule that does not search.
std::string best_of_all(const Request& request, const std::vector<std::string>& steady) {
  ComparisonRequest all{.request = request};
  for (const schedules::Schedule* schedule : schedules::all()) {
    if (!schedule->searches()) all.schedules.push_back(schedules::select(schedule->name));
  }
  const Comparison comparison = compare(all);
  const ComparisonRow* const best = comparison.best_without(steady);
  return best == nullptr ? "" : best->design->name;
}

/// The request with another value of what a turn is about.
Request turned(Request request, const std::string& what, std::int64_t value) {
  Problem& problem = request.problem;
  if (what == "heads") {
    problem.heads = problem.heads_kv = static_cast<std::int32_t>(value);
  } else if (what == "reduce") {
    request.model.timing.reduce = value;
  } else if (what == "heads_kv") {
    problem.heads_kv = static_cast<std::int32_t>(value);
    problem = with_span(problem, problem.group(), Combine::partials);
  } else if (what == "sinks") {
    const std::string window = "sliding:left=1,right=0";
    problem = make_problem(
        parse_mask(value == 0 ? window : window + " | global:first=" + std::to_string(value)),
        problem.lengths, problem.shape, problem.heads, problem.sms);
  } else {
    FAIL("another turn: " + what);
  }
  return request;
}

TEST_CASE("turns are where another design is the best") {
  std::set<std::string> seen;
  for (const std::int64_t heads : {1, 3, 6}) {
    for (const Ticks reduce : {1, 4}) {
      for (const std::vector<std::string>& steady :
           {std::vector<std::string>{}, std::vector<std::string>{"sms", "batch"}}) {
        AdviceRequest request{.request = heads_request(heads), .steady = steady};
        request.request.model.timing.reduce = reduce;
        const Advice advice = advise(request);
        std::string last;
        for (const Turn& turn : advice.turns) {
          CAPTURE(heads, reduce, steady.size(), turn.what, turn.below, turn.from);
          CHECK(turn.below < turn.from);
          // KV heads divide the heads: it goes no nearer where those between do not.
          const std::int64_t middle = turn.below + (turn.from - turn.below) / 2;
          const bool asked = turn.what != std::string("heads_kv") || heads % middle == 0;
          if (asked) {
            CHECK(turn.from - turn.below <= std::max<std::int64_t>(turn.from / 32, 1));
          }
          CHECK(turn.before != turn.after);
          CHECK(best_of_all(turned(request.request, turn.what, turn.below), steady) == turn.before);
          CHECK(best_of_all(turned(request.request, turn.what, turn.from), steady) == turn.after);
          seen.insert(turn.what);
        }
      }
    }
  }
  CHECK(seen.size() >= 2);
}

TEST_CASE("sinks turn what is best of a window, whether it has some or not") {
  const Request window{
      .problem = make_problem(parse_mask("sliding:left=1,right=0"), {16, 16}, {}, 8, 16),
      .head_dim = 64,
      .element_bytes = 2};
  std::int64_t turns = 0;
  std::vector<Turn> of_window;
  for (const std::int64_t sinks : {0, 1, 4}) {
    const Advice advice = advise({.request = turned(window, "sinks", sinks)});
    std::vector<Turn> of_sinks;
    for (const Turn& turn : advice.turns) {
      if (turn.what != std::string("sinks")) continue;
      CAPTURE(sinks, turn.below, turn.from, turn.before, turn.after);
      CHECK(turn.before != turn.after);
      CHECK(best_of_all(turned(window, "sinks", turn.below), {}) == turn.before);
      CHECK(best_of_all(turned(window, "sinks", turn.from), {}) == turn.after);
      of_sinks.push_back(turn);
      ++turns;
    }
    if (sinks == 0) of_window = of_sinks;
    REQUIRE(of_sinks.size() == of_window.size());
    for (std::size_t turn = 0; turn < of_sinks.size(); ++turn)
      CHECK(of_sinks[turn].from == of_window[turn].from);
  }
  CHECK(turns > 0);
}

TEST_CASE("reasons are the best row of each design, fastest first, with what it loses") {
  AdviceRequest request{.request = heads_request(4)};
  std::vector<double> told;
  request.progress = [&](double fraction) { told.push_back(fraction); };
  const Advice advice = advise(request);
  REQUIRE(advice.reasons.size() >= 5);
  CHECK(advice.reasons.front().ratio == 1);
  CHECK(advice.reasons.front().takes == advice.comparison.best()->analysis->takes());
  std::set<std::string> names;
  for (const Reason& reason : advice.reasons) {
    CAPTURE(reason.name, reason.why);
    CHECK(names.insert(reason.name).second);
    CHECK(reason.ratio ==
          static_cast<double>(reason.takes) / static_cast<double>(advice.reasons.front().takes));
    CHECK_FALSE(reason.why.empty());
    const auto row = std::ranges::find_if(advice.comparison.rows, [&](const ComparisonRow& each) {
      return reason.name == (each.design->needs_schedule ? "ordered " + each.name : each.name);
    });
    REQUIRE(row != advice.comparison.rows.end());
    CHECK(row->analysis->takes() == reason.takes);
    for (const ComparisonRow& other : advice.comparison.rows) {
      if (other.design != row->design || !advice.comparison.knows_time(other)) continue;
      CHECK(other.analysis->takes() >= reason.takes);
    }
  }
  CHECK(std::ranges::is_sorted(advice.reasons, {}, &Reason::takes));
  // dS's stores are bound by a memory that is not known: it is no reason.
  CHECK(names.count("ds-store") == 0);
  REQUIRE(told.size() == 3);  // heads, reduce and heads_kv
  CHECK(told[0] == 0.25);
  CHECK(told[2] == 0.75);
  // One kernel of 5 + 1 ticks a task: 16.7 % of them reduce.
  const auto ordered = std::ranges::find_if(
      advice.reasons, [](const Reason& reason) { return reason.name.starts_with("ordered "); });
  REQUIRE(ordered != advice.reasons.end());
  CHECK(ordered->why.starts_with("reduces 16.7 % of the time"));
  request.stop = [] { return true; };
  CHECK(advise(request).turns.empty());
}

}  // namespace
}  // namespace stagger::designs
