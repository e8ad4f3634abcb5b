#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stagger::cli {

/// A name that an expectation may speak of.
struct ExpectName {
  const char* name;
  const char* meaning;
};

/// A fraction in lowest terms, so that equality is exact.
struct Exact {
  std::int64_t numerator = 0;
  std::int64_t denominator = 1;  ///< 1 or more

  friend bool operator==(const Exact&, const Exact&) = default;
};
/// Requires a denominator of 1 or more.
[[nodiscard]] Exact exact(std::int64_t numerator, std::int64_t denominator = 1);
/// A number to six decimals, ties away from zero. Throws Error{limit} if it is 10^12 or more, or no
/// number.
[[nodiscard]] Exact millionths(double value);
[[nodiscard]] double decimal(const Exact& value);
/// `120`; of a fraction `0.145833`, rounded.
[[nodiscard]] std::string text_of(const Exact& value);

using Values = std::map<std::string, Exact, std::less<>>;

/// A comparison of two expressions, such as `makespan == m*(n+1)*(c+r)/2` or `gap <= 0.05`:
/// + - * / and parentheses, == != <= >= < >, decimals, the names given. All of it is exact.
class Expectation {
 public:
  /// Throws Error{usage} naming the place if it is malformed or a name is unknown.
  Expectation(std::string text, std::span<const ExpectName> names);

  [[nodiscard]] const std::string& text() const { return text_; }
  /// Those that it speaks of, each once.
  [[nodiscard]] const std::set<std::string>& names() const { return names_; }
  /// Throws Error{usage} naming the place if a name has no value, a number overflows or a divisor
  /// is 0.
  [[nodiscard]] bool holds(const Values& values) const;

 private:
  /// What a stack machine does: a letter of + - * /, `~` for a change of sign, `#` for a number,
  /// `$` for a name.
  struct Step {
    char does;
    std::size_t place;  ///< in the text
    Exact number = {};
    std::string name = {};
  };
  class Parser;
  [[noreturn]] void reject(const std::string& expected, std::size_t place) const;
  [[nodiscard]] Exact value_of(const std::vector<Step>& steps, const Values& values) const;

  std::string text_;
  std::vector<Step> left_;
  std::vector<Step> right_;
  std::string relation_;
  std::set<std::string> names_;
};

[[nodiscard]] std::vector<Expectation> expectations_of(const std::vector<std::string>& texts,
                                                       std::span<const ExpectName> names);

/// Whether an expectation holds, and what it speaks of.
struct Judgement {
  std::string text;
  bool holds = false;
  Values values;                     ///< of its names that have one
  std::vector<std::string> unknown;  ///< its names that have none
};

/// What becomes of each; what speaks of a name that has no value does not hold, and nothing does
/// without values (nullptr). Throws like Expectation::holds().
[[nodiscard]] std::vector<Judgement> judge(std::span<const Expectation> expectations,
                                           const Values* values);

/// Says on standard error which do not hold, and with which values. Whether all do.
[[nodiscard]] bool all_hold(std::span<const Judgement> judgements);

}  // namespace stagger::cli
