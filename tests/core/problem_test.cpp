#include "core/problem.hpp"

#include "core/error.hpp"
#include "core/timing.hpp"
#include "tests/support/catch.hpp"

namespace stagger {
namespace {

TEST_CASE("there is an SM for every KV tile unless the caller says otherwise") {
  CHECK(make_problem(make_mask("causal"), {8, 8}, {}, 4, 0).sms == 8);
  CHECK(make_problem(make_mask("causal"), {8, 8}, {}, 4, 3).sms == 3);
  CHECK(make_problem(make_mask("causal"), {8, 8}, {}, 4, 0).tasks() == 144);
}

TEST_CASE("sizes that cannot be are refused before memory is asked for") {
  const auto make = [](std::int64_t tiles, std::int64_t heads, std::int64_t sms) {
    return make_problem(make_mask("full"), {tiles, tiles}, {}, heads, sms);
  };
  CHECK_THROWS_AS(make(4, 0, 1), Error);
  CHECK_THROWS_AS(make(4, 1, -1), Error);
  CHECK_THROWS_AS(make(4, std::int64_t{1} << 40, 1), Error);
  CHECK_THROWS_AS(make(4, 1, std::int64_t{1} << 40), Error);
  CHECK_THROWS_AS(make(1024, 1000, 1), Error);  // a thousand million tasks
  CHECK_THROWS_AS(
      make_problem(make_mask("sliding", {{"left", std::int64_t{0}}, {"right", std::int64_t{0}}}),
                   {8000, 8000}, {}, 8000, 1),
      Error);  // few tasks, but a huge grid
}

TEST_CASE("ticks that could overflow are refused") {
  const auto problem = [](std::int64_t tasks, std::int64_t sms) {
    return make_problem(make_mask("full"), {tasks, 1}, {}, 1, sms);
  };
  const Problem one = problem(1, 1);
  constexpr Ticks kMost = Ticks{1} << 60;
  CHECK_NOTHROW(check_timing({.compute = kMost, .reduce = 0}, one));
  CHECK_THROWS_AS(check_timing({.compute = kMost, .reduce = 1}, one), Error);
  CHECK_THROWS_AS(check_timing({.compute = INT64_MAX, .reduce = INT64_MAX}, one), Error);
  CHECK_NOTHROW(check_timing({.compute = kMost / 2, .reduce = 0}, problem(2, 1)));
  CHECK_THROWS_AS(check_timing({.compute = kMost / 2, .reduce = 0}, problem(3, 1)), Error);
  CHECK_NOTHROW(check_timing({.compute = kMost / 1000, .reduce = 0}, problem(1, 1000)));
  CHECK_THROWS_AS(check_timing({.compute = kMost / 1000, .reduce = 1}, problem(1, 1000)), Error);
  CHECK_THROWS_AS(check_timing({.compute = 1, .latency = kMost}, one), Error);
  CHECK_THROWS_AS(check_timing({.compute = 1, .launch = kMost}, one), Error);
  CHECK_THROWS_AS(check_timing({.compute = 1, .epilogue = kMost}, one), Error);
  CHECK_THROWS_AS(check_timing({.compute = 0, .reduce = 0}, one), Error);
  CHECK_THROWS_AS(check_timing({.latency = -1}, one), Error);
  CHECK_NOTHROW(check_timing({.compute = 0, .reduce = 1}, one));
  CHECK_THROWS_AS(check_timing({.compute_partial = 0, .reduce = 0}, one), Error);
  CHECK_THROWS_AS(check_timing({.compute_partial = -1}, one), Error);
  CHECK_THROWS_AS(check_timing({.compute_partial = kMost}, one), Error);
  CHECK_NOTHROW(check_timing({.compute_partial = 0}, one));
}

}  // namespace
}  // namespace stagger
