#include "core/checked.hpp"

#include "tests/support/catch.hpp"

#include <vector>

namespace stagger {
namespace {

using Wide = __int128;

bool fits(Wide value) {
  return value >= INT64_MIN && value <= INT64_MAX;
}

const std::vector<std::int64_t> kValues = {INT64_MIN,
                                           INT64_MIN + 1,
                                           -(std::int64_t{1} << 32),
                                           -3,
                                           -1,
                                           0,
                                           1,
                                           2,
                                           3,
                                           10,
                                           std::int64_t{1} << 31,
                                           (std::int64_t{1} << 32) + 1,
                                           std::int64_t{1} << 62,
                                           INT64_MAX - 1,
                                           INT64_MAX};

void expect_is(Checked checked, Wide exact) {
  REQUIRE(checked.within(INT64_MAX) == fits(exact));
  if (!fits(exact)) {
    REQUIRE_THROWS_AS(checked.value(), ContractViolation);
    return;
  }
  const auto value = static_cast<std::int64_t>(exact);
  REQUIRE(checked.value() == value);
  REQUIRE(checked.within(value));
  if (value > INT64_MIN) REQUIRE_FALSE(checked.within(value - 1));
}

TEST_CASE("sums, differences and products are what 128 bits say, or known to have left 64") {
  for (const std::int64_t left : kValues) {
    for (const std::int64_t right : kValues) {
      CAPTURE(left, right);
      expect_is(Checked(left) + right, Wide{left} + right);
      expect_is(Checked(left) - right, Wide{left} - right);
      expect_is(Checked(left) * right, Wide{left} * right);
    }
  }
}

TEST_CASE("what has left 64 bits does not come back") {
  const Checked past = Checked(INT64_MAX) + 1;
  for (const Checked& result : {past - 1, past * 0, 0 * past, 1 - past, past + past}) {
    CHECK_FALSE(result.within(INT64_MAX));
  }
}

TEST_CASE("a quotient is rounded up without a sum that overflows") {
  CHECK(divide_up(0, 5) == 0);
  CHECK(divide_up(1, 5) == 1);
  CHECK(divide_up(5, 5) == 1);
  CHECK(divide_up(6, 5) == 2);
  CHECK(divide_up(7, INT64_MAX) == 1);
  CHECK(divide_up(INT64_MAX, INT64_MAX) == 1);
  CHECK(divide_up(INT64_MAX, 2) == (std::int64_t{1} << 62));
}

}  // namespace
}  // namespace stagger
