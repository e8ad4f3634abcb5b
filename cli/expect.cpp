// Recursive descent:  comparison = sum relation sum;  sum = product {(+|-) product};
// product = factor {(*|/) factor};  factor = number | name | - factor | ( sum ).
// What is parsed is kept as steps of a stack machine, so that a mistake is said before the work
// whose result is expected.

#include "cli/expect.hpp"

#include "cli/terminal.hpp"
#include "core/error.hpp"
#include "core/nearest.hpp"

#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>
#include <optional>

namespace stagger::cli {
namespace {

constexpr int kDeepest = 64;
__extension__ using Wide = __int128;

Wide greatest_divisor(Wide left, Wide right) {
  while (right != 0) {
    left %= right;
    std::swap(left, right);
  }
  return left < 0 ? -left : left;
}

/// In lowest terms, nullopt if they do not fit 64 bits. Requires a denominator that is not 0.
std::optional<Exact> reduced(Wide numerator, Wide denominator) {
  constexpr Wide kMost = std::numeric_limits<std::int64_t>::max();
  const Wide divisor = greatest_divisor(numerator, denominator) * (denominator < 0 ? -1 : 1);
  numerator /= divisor;
  denominator /= divisor;
  if (numerator > kMost || numerator < -kMost - 1 || denominator > kMost) return std::nullopt;
  return Exact{static_cast<std::int64_t>(numerator), static_cast<std::int64_t>(denominator)};
}

/// left + sign * right. Each product of two 64-bit numbers fits 127 bits.
std::optional<Exact> sum_of(const Exact& left, const Exact& right, int sign) {
  const Wide first = Wide{left.numerator} * right.denominator;
  const Wide second = Wide{right.numerator} * left.denominator * sign;
  Wide sum = 0;
  if (__builtin_add_overflow(first, second, &sum)) return std::nullopt;
  return reduced(sum, Wide{left.denominator} * right.denominator);
}

/// What an operation makes of two fractions; absent: an overflow. Requires a divisor that is not 0.
std::optional<Exact> result_of(char operation, const Exact& left, const Exact& right) {
  if (operation == '+') return sum_of(left, right, 1);
  if (operation == '-') return sum_of(left, right, -1);
  if (operation == '*') {
    return reduced(Wide{left.numerator} * right.numerator,
                   Wide{left.denominator} * right.denominator);
  }
  return reduced(Wide{left.numerator} * right.denominator,
                 Wide{left.denominator} * right.numerator);
}

/// Below 0, 0 or above 0.
int compared(const Exact& left, const Exact& right) {
  const Wide first = Wide{left.numerator} * right.denominator;
  const Wide second = Wide{right.numerator} * left.denominator;
  return first < second ? -1 : first > second ? 1 : 0;
}

bool is_digit(char letter) {
  return letter >= '0' && letter <= '9';
}

}  // namespace

Exact exact(std::int64_t numerator, std::int64_t denominator) {
  STAGGER_EXPECTS(denominator >= 1);
  return *reduced(numerator, denominator);
}

Exact millionths(double value) {
  if (!(std::abs(value) < 1e12)) throw Error(ErrorKind::limit, "a value is too large to judge");
  return exact(std::llround(1e6 * value), 1'000'000);
}

double decimal(const Exact& value) {
  return static_cast<double>(value.numerator) / static_cast<double>(value.denominator);
}

std::string text_of(const Exact& value) {
  if (value.denominator == 1) return std::to_string(value.numerator);
  char text[64];
  std::snprintf(text, sizeof text, "%.6g", decimal(value));
  return text;
}

class Expectation::Parser {
 public:
  Parser(Expectation& expectation, std::span<const ExpectName> names)
      : expectation_(expectation), text_(expectation.text_), known_(names) {}

  void comparison() {
    steps_ = &expectation_.left_;
    sum();
    expectation_.relation_ = take_relation();
    steps_ = &expectation_.right_;
    sum();
    if (!peek().empty()) reject("nothing more");
  }

 private:
  [[noreturn]] void reject(const std::string& expected) const {
    expectation_.reject(expected, place_);
  }

  std::string_view peek() {
    while (place_ < text_.size() && text_[place_] == ' ')
      ++place_;
    return text_.substr(place_);
  }

  bool take(char wanted) {
    if (!peek().starts_with(wanted)) return false;
    ++place_;
    return true;
  }

  std::string take_relation() {
    for (const char* relation : {"==", "!=", "<=", ">=", "<", ">"}) {
      if (!peek().starts_with(relation)) continue;
      place_ += std::string_view(relation).size();
      return relation;
    }
    reject("one of == != <= >= < >");
  }

  void add(char does, std::size_t place) { steps_->push_back({.does = does, .place = place}); }

  /// Operands of one of two operations, from the left.
  void chain(char first, char second, void (Parser::*operand)()) {
    (this->*operand)();
    while (true) {
      const std::size_t place = place_;
      const char does = take(first) ? first : take(second) ? second : '\0';
      if (does == '\0') return;
      (this->*operand)();
      add(does, place);
    }
  }

  void sum() { chain('+', '-', &Parser::product); }
  void product() { chain('*', '/', &Parser::factor); }

  void factor() {
    if (++depth_ > kDeepest) reject("less nesting");
    const std::size_t place = place_;
    if (take('-')) {
      factor();
      add('~', place);
    } else if (take('(')) {
      sum();
      if (!take(')')) reject("')'");
    } else if (const std::string_view rest = peek(); !rest.empty() && is_digit(rest.front())) {
      number();
    } else {
      name();
    }
    --depth_;
  }

  /// Digits, and perhaps a point and more of them.
  void number() {
    const std::size_t place = place_;
    std::int64_t value = 0;
    std::int64_t scale = 1;
    bool fits = true;
    const auto take_digits = [&](std::int64_t by) {
      while (place_ < text_.size() && is_digit(text_[place_])) {
        fits = fits && !__builtin_mul_overflow(value, 10, &value) &&
               !__builtin_add_overflow(value, text_[place_] - '0', &value) &&
               !__builtin_mul_overflow(scale, by, &scale);
        ++place_;
      }
    };
    take_digits(1);
    if (text_.substr(place_).starts_with('.')) {
      ++place_;
      if (place_ == text_.size() || !is_digit(text_[place_])) reject("a digit");
      take_digits(10);
    }
    if (!fits) expectation_.reject("a 64-bit number", place);
    steps_->push_back({.does = '#', .place = place, .number = exact(value, scale)});
  }

  void name() {
    const std::string_view rest = peek();
    std::size_t length = 0;
    while (length < rest.size() &&
           (std::isalnum(static_cast<unsigned char>(rest[length])) != 0 || rest[length] == '_')) {
      ++length;
    }
    const std::string name(rest.substr(0, length));
    for (const ExpectName& row : known_) {
      if (name != row.name) continue;
      steps_->push_back({.does = '$', .place = place_, .name = name});
      expectation_.names_.insert(name);
      place_ += length;
      return;
    }
    const std::vector<std::string> known = names_of(known_);
    std::string expected = "a number or one of " + listed(known);
    const std::vector<std::string> near = nearest(name, known);
    if (!near.empty()) expected += " (did you mean " + near.front() + "?)";
    reject(expected);
  }

  Expectation& expectation_;
  std::string_view text_;
  std::span<const ExpectName> known_;
  std::vector<Step>* steps_ = nullptr;
  std::size_t place_ = 0;
  int depth_ = 0;
};

Expectation::Expectation(std::string text, std::span<const ExpectName> names)
    : text_(std::move(text)) {
  Parser(*this, names).comparison();
}

void Expectation::reject(const std::string& expected, std::size_t place) const {
  throw Error(ErrorKind::usage, "--expect '" + text_ + "': expected " + expected +
                                    " at character " + std::to_string(place + 1));
}

Exact Expectation::value_of(const std::vector<Step>& steps, const Values& values) const {
  std::vector<Exact> stack;
  const auto pop = [&] {
    const Exact value = stack.back();
    stack.pop_back();
    return value;
  };
  for (const Step& step : steps) {
    if (step.does == '#') {
      stack.push_back(step.number);
      continue;
    }
    if (step.does == '$') {
      const auto found = values.find(step.name);
      if (found == values.end())
        reject("a name that has a value here, not " + step.name, step.place);
      stack.push_back(found->second);
      continue;
    }
    const Exact right = pop();
    const Exact left = step.does == '~' ? Exact{} : pop();
    if (step.does == '/' && right.numerator == 0) reject("a divisor other than 0", step.place);
    const auto result = result_of(step.does == '~' ? '-' : step.does, left, right);
    if (!result) reject("a value that fits 64 bits", step.place);
    stack.push_back(*result);
  }
  return stack.back();
}

bool Expectation::holds(const Values& values) const {
  const int order = compared(value_of(left_, values), value_of(right_, values));
  if (relation_ == "==") return order == 0;
  if (relation_ == "!=") return order != 0;
  if (relation_ == "<=") return order <= 0;
  if (relation_ == ">=") return order >= 0;
  return relation_ == "<" ? order < 0 : order > 0;
}

std::vector<Expectation> expectations_of(const std::vector<std::string>& texts,
                                         std::span<const ExpectName> names) {
  std::vector<Expectation> expectations;
  expectations.reserve(texts.size());
  for (const std::string& text : texts)
    expectations.emplace_back(text, names);
  return expectations;
}

std::vector<Judgement> judge(std::span<const Expectation> expectations, const Values* values) {
  std::vector<Judgement> judgements;
  for (const Expectation& expectation : expectations) {
    Judgement& judgement = judgements.emplace_back();
    judgement.text = expectation.text();
    for (const std::string& name : expectation.names()) {
      if (values != nullptr && values->contains(name)) {
        judgement.values.emplace(name, values->at(name));
      } else {
        judgement.unknown.push_back(name);
      }
    }
    judgement.holds = values != nullptr && judgement.unknown.empty() && expectation.holds(*values);
  }
  return judgements;
}

bool all_hold(std::span<const Judgement> judgements) {
  bool all = true;
  for (const Judgement& judgement : judgements) {
    if (judgement.holds) continue;
    all = false;
    std::string values;
    for (const auto& [name, value] : judgement.values)
      values += (values.empty() ? "; " : ", ") + name + " = " + text_of(value);
    for (const std::string& name : judgement.unknown)
      values += (values.empty() ? "; " : ", ") + name + " has no value";
    complain("expectation does not hold: " + judgement.text + values);
  }
  return all;
}

}  // namespace stagger::cli
