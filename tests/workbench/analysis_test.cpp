#include "workbench/analysis.hpp"

#include "core/error.hpp"
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

TEST_CASE("two million tasks are drawn, and not one more") {
  const auto problem = [](std::int64_t q_tiles) {
    return make_problem(make_mask("full"), {q_tiles, 1'000}, {}, 1, 1);
  };
  CHECK_NOTHROW(expect_drawable(problem(2'000)));
  CHECK(test::message_of([&] { expect_drawable(problem(2'001)); }, ErrorKind::limit) ==
        "2001000 tasks; at most 2000000 are drawn or listed");
}

}  // namespace
}  // namespace stagger::workbench
