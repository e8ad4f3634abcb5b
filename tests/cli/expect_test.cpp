#include "cli/expect.hpp"

#include "core/error.hpp"
#include "tests/support/catch.hpp"

namespace stagger::cli {
namespace {

const Variables kVariables = {{"makespan", 108}, {"m", 4}, {"n", 8}, {"c", 5}, {"r", 1}};

TEST_CASE("comparisons of integer expressions") {
  CHECK(holds("makespan == m*(n+1)*(c+r)/2", kVariables));
  CHECK(holds("makespan <= m * n * (c + r)", kVariables));
  CHECK(holds("-m < - (1)", kVariables));
  CHECK(holds("7/2 == 3", kVariables));
  CHECK(holds("1 - 2 - 3 == -4", kVariables));
  CHECK(holds("2 + 3 * 4 != 20", kVariables));
  CHECK_FALSE(holds("makespan > 108", kVariables));
  CHECK(holds("makespan >= 108", kVariables));
}

TEST_CASE("malformed expressions are refused with their place") {
  for (const char* text :
       {"", "makespan", "makespan = 1", "1 ==", "== 1", "(1 == 1", "span == 1", "1/0 == 1",
        "9223372036854775807 + 1 == 0", "99999999999999999999 == 0", "1 == 1 1", "n == 8 == 8"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(holds(text, kVariables), Error);
  }
  CHECK_THROWS_AS(holds(std::string(100'000, '(') + "1 == 1", kVariables), Error);
}

}  // namespace
}  // namespace stagger::cli
