#include "cli/expect.hpp"

#include "core/error.hpp"
#include "tests/support/catch.hpp"

#include <limits>
#include <string>
#include <utility>

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

/// Whether left relation right, of fractions whose denominators are above 0.
bool compare(std::int64_t left, std::int64_t below_left, const std::string& relation,
             std::int64_t right, std::int64_t below_right) {
  const std::int64_t difference = left * below_right - right * below_left;
  if (relation == "==") return difference == 0;
  if (relation == "!=") return difference != 0;
  if (relation == "<=") return difference <= 0;
  if (relation == ">=") return difference >= 0;
  return relation == "<" ? difference < 0 : difference > 0;
}

TEST_CASE("every operation and relation of small fractions is theirs by cross multiplication") {
  std::int64_t judged = 0;
  std::int64_t divided_by_none = 0;
  const auto each = [&](std::int64_t a, std::int64_t b, char operation, std::int64_t c,
                        std::int64_t d) {
    std::int64_t above = a * c;
    std::int64_t below = b * d;
    if (operation == '+') above = a * d + c * b;
    if (operation == '-') above = a * d - c * b;
    if (operation == '/') {
      above = c < 0 ? -a * d : a * d;
      below = c < 0 ? -b * c : b * c;
    }
    const auto fraction = [](std::int64_t numerator, std::int64_t denominator) {
      return std::to_string(numerator) + "/" + std::to_string(denominator);
    };
    for (const char* relation : {"==", "!=", "<=", ">=", "<", ">"}) {
      for (std::int64_t right = -3; right <= 3; ++right) {
        const std::string text = fraction(a, b) + " " + operation + " (" + fraction(c, d) + ") " +
                                 relation + fraction(right, 2);
        CAPTURE(text);
        if (below == 0) {
          ++divided_by_none;
          REQUIRE_THROWS_AS(holds(text), Error);
        } else {
          ++judged;
          REQUIRE(holds(text) == compare(above, below, relation, right, 2));
        }
      }
    }
  };
  for (const char operation : {'+', '-', '*', '/'}) {
    for (std::int64_t a = -3; a <= 3; ++a) {
      for (std::int64_t c = -3; c <= 3; ++c) {
        for (const std::int64_t b : {1, 2, 3}) {
          for (const std::int64_t d : {1, 2})
            each(a, b, operation, c, d);
        }
      }
    }
  }
  CHECK(judged + divided_by_none == 4 * 7 * 7 * 3 * 2 * 6 * 7);
  CHECK(divided_by_none == 7 * 3 * 2 * 6 * 7);
}

TEST_CASE("numbers are exact to the last one of 64 bits, and refused beyond") {
  for (const char* text :
       {"most - 1 + 1 == most", "-most - 1 < -most", "-most - 1 + 1 == -most",
        "most == 9223372036854775807", "(1/most) * most == 1", "1/most - 1/most == 0",
        "most / most == 1", "-most / most == -1", "0.000000000000000001 * 10 > 0"}) {
    CAPTURE(text);
    CHECK(holds(text));
  }
  CHECK_THROWS_WITH(Expectation("1 == 9223372036854775808", kNames),
                    Catch::Contains("expected a 64-bit number at character 6"));
  const auto nested = [](int deep) {
    return std::string(static_cast<std::size_t>(deep), '(') + "1" +
           std::string(static_cast<std::size_t>(deep), ')') + " == 1";
  };
  CHECK(holds(nested(63)));
  CHECK_THROWS_WITH(Expectation(nested(64), kNames), Catch::Contains("expected less nesting"));
  CHECK(millionths(0.0000005) == exact(1, 1'000'000));
  CHECK(millionths(-0.0000005) == exact(-1, 1'000'000));
  CHECK(millionths(999'999'999'998.0) == exact(999'999'999'998));
  CHECK(millionths(-2.5) == exact(-5, 2));
  for (const double value : {1e12, -1e12, std::numeric_limits<double>::quiet_NaN()})
    CHECK_THROWS_AS(millionths(value), Error);
}

TEST_CASE("what is not said right is refused at its place") {
  const std::pair<const char*, const char*> rows[] = {
      {"1 ~ 2", "one of == != <= >= < > at character 3"},
      {"1. == 1", "a digit at character 3"},
      {"(1 == 1", "')' at character 4"},
      {"1 == 1 1", "nothing more at character 8"},
      {"m == n == n", "nothing more at character 8"}};
  for (const auto& [text, words] : rows)
    CHECK_THROWS_WITH(Expectation(text, kNames), Catch::Contains(std::string("expected ") + words));
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
