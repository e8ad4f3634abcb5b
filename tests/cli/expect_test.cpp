#include "cli/expect.hpp"

#include "core/error.hpp"
#include "tests/support/catch.hpp"

#include <limits>

namespace stagger::cli {
namespace {

constexpr ExpectName kNames[] = {{"makespan", "ticks"}, {"m", "heads"},     {"n", "KV tiles"},
                                 {"c", "compute"},      {"r", "reduction"}, {"gap", "a fraction"},
                                 {"most", "2^63 - 1"}};
const Values kValues = {{"makespan", exact(108)},
                        {"m", exact(4)},
                        {"n", exact(8)},
                        {"c", exact(5)},
                        {"r", exact(1)},
                        {"gap", exact(7, 48)},
                        {"most", exact(std::numeric_limits<std::int64_t>::max())}};

bool holds(const std::string& text) {
  return Expectation(text, kNames).holds(kValues);
}

TEST_CASE("comparisons of expressions") {
  CHECK(holds("makespan == m*(n+1)*(c+r)/2"));
  CHECK(holds("makespan <= m * n * (c + r)"));
  CHECK(holds("-m < - (1)"));
  CHECK(holds("1 - 2 - 3 == -4"));
  CHECK(holds("2 + 3 * 4 != 20"));
  CHECK_FALSE(holds("makespan > 108"));
  CHECK(holds("makespan >= 108"));
  CHECK(holds("--m == 4"));
  CHECK(holds("010 == 10"));
}

TEST_CASE("decimals and quotients are exact") {
  CHECK(holds("7/2 == 3.5"));
  CHECK(holds("7/2 != 3"));
  CHECK(holds("0.1 + 0.2 == 0.3"));
  CHECK(holds("1/3 + 1/6 == 0.5"));
  CHECK(holds("1/3*3 == 1"));
  CHECK(holds("gap > 0.145833"));
  CHECK(holds("gap < 0.145834"));
  CHECK(holds("gap == 7/48"));
  CHECK(holds("12 / 2 / 3 == 2"));
  CHECK(holds("-1/2 < 0"));
  CHECK(holds("1/-2 < 0"));
  CHECK(holds("most > most - 1"));
  CHECK(holds("1/most < 2/most"));
}

TEST_CASE("malformed expressions are refused with their place before anything is known") {
  for (const char* text : {"", "makespan", "makespan = 1", "1 ==", "== 1", "(1 == 1", "span == 1",
                           "99999999999999999999 == 0", "1 == 1 1", "n == 8 == 8", "1. == 1",
                           ".5 == 1", "1.2.3 == 1", "0.00000000000000000001 == 1", "n == 8 # c"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(Expectation(text, kNames), Error);
  }
  CHECK_THROWS_AS(Expectation(std::string(100'000, '(') + "1 == 1", kNames), Error);
  CHECK_THROWS_AS(Expectation(std::string(100'000, '-') + "1 == 1", kNames), Error);
  CHECK_THROWS_WITH(Expectation("n == span", kNames),
                    Catch::Contains("expected a number or one of makespan, m, n,") &&
                        Catch::Contains("at character 6"));
}

TEST_CASE("what has no value is refused when values are known") {
  for (const char* text : {"1/0 == 1", "1/(n-8) == 1", "most + 1 == 0", "most * 2 > 0",
                           "-most - 2 < 0", "(1/most) / most == 0"}) {
    CAPTURE(text);
    const Expectation expectation(text, kNames);
    CHECK_THROWS_AS(expectation.holds(kValues), Error);
  }
}

TEST_CASE("a judgement tells the values that it was made by") {
  const std::vector<Expectation> both = {Expectation("makespan <= m*n + gap*m", kNames),
                                         Expectation("n == 8", kNames)};
  const std::vector<Judgement> judgements = judge(both, &kValues);
  CHECK_FALSE(judgements[0].holds);
  CHECK(judgements[0].values ==
        Values{{"makespan", exact(108)}, {"m", exact(4)}, {"n", exact(8)}, {"gap", exact(7, 48)}});
  CHECK(judgements[1].holds);
  CHECK(judgements[1].text == "n == 8");
  for (const Judgement& unknown : judge(both, nullptr)) {
    CHECK_FALSE(unknown.holds);
    CHECK(unknown.values.empty());
  }
  CHECK(text_of(exact(7, 48)) == "0.145833");
  CHECK(text_of(exact(-14, 7)) == "-2");
}

}  // namespace
}  // namespace stagger::cli
