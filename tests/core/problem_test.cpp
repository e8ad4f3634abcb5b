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
  Timing timing;
  timing.compute = std::int64_t{1} << 61;
  CHECK_NOTHROW(check_timing(timing, 1, 1));
  CHECK_THROWS_AS(check_timing(timing, 3, 1), Error);
  CHECK_THROWS_AS(check_timing({.compute = 0, .reduce = 0}, 1, 1), Error);
  CHECK_THROWS_AS(check_timing({.latency = -1}, 1, 1), Error);
  CHECK_NOTHROW(check_timing({.compute = 0, .reduce = 1}, 1, 1));
  CHECK_THROWS_AS(check_timing({.compute_partial = 0, .reduce = 0}, 1, 1), Error);
  CHECK_THROWS_AS(check_timing({.compute_partial = -1}, 1, 1), Error);
  CHECK_THROWS_AS(check_timing({.compute_partial = std::int64_t{1} << 61}, 2, 1), Error);
  CHECK_NOTHROW(check_timing({.compute_partial = 0}, 1, 1));
}

}  // namespace
}  // namespace stagger
