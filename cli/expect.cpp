// Recursive descent:  comparison = sum relation sum;  sum = product {(+|-) product};
// product = factor {(*|/) factor};  factor = number | name | - factor | ( sum ).

#include "cli/expect.hpp"

#include "core/error.hpp"

#include <cctype>
#include <charconv>

namespace stagger::cli {
namespace {

constexpr int kDeepest = 64;

// Each says whether it overflowed.
bool add(std::int64_t left, std::int64_t right, std::int64_t* value) {
  return __builtin_add_overflow(left, right, value);
}
bool subtract(std::int64_t left, std::int64_t right, std::int64_t* value) {
  return __builtin_sub_overflow(left, right, value);
}
bool multiply(std::int64_t left, std::int64_t right, std::int64_t* value) {
  return __builtin_mul_overflow(left, right, value);
}

class Evaluation {
 public:
  Evaluation(std::string_view text, const Variables& variables)
      : text_(text), variables_(variables) {}

  bool comparison() {
    const std::int64_t left = sum();
    const std::string relation = take_relation();
    const std::int64_t right = sum();
    if (!peek().empty()) reject("nothing more");
    if (relation == "==") return left == right;
    if (relation == "!=") return left != right;
    if (relation == "<=") return left <= right;
    if (relation == ">=") return left >= right;
    return relation == "<" ? left < right : left > right;
  }

 private:
  [[noreturn]] void reject(const std::string& expected) const {
    throw Error(ErrorKind::usage, "--expect '" + std::string(text_) + "': expected " + expected +
                                      " at character " + std::to_string(place_ + 1));
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

  std::int64_t sum() {
    std::int64_t value = product();
    while (true) {
      if (take('+')) {
        value = checked(add, value, product());
      } else if (take('-')) {
        value = checked(subtract, value, product());
      } else {
        return value;
      }
    }
  }

  std::int64_t product() {
    std::int64_t value = factor();
    while (true) {
      if (take('*')) {
        value = checked(multiply, value, factor());
      } else if (take('/')) {
        const std::int64_t divisor = factor();
        if (divisor == 0) reject("a divisor other than 0 before");
        value = divisor == -1 ? checked(subtract, std::int64_t{0}, value) : value / divisor;
      } else {
        return value;
      }
    }
  }

  std::int64_t factor() {
    if (++depth_ > kDeepest) reject("less nesting");
    std::int64_t value = 0;
    if (take('-')) {
      value = checked(subtract, std::int64_t{0}, factor());
    } else if (take('(')) {
      value = sum();
      if (!take(')')) reject("')'");
    } else {
      value = atom();
    }
    --depth_;
    return value;
  }

  std::int64_t atom() {
    const std::string_view rest = peek();
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    if (error == std::errc::result_out_of_range) reject("a 64-bit number");
    if (error == std::errc{}) {
      place_ += static_cast<std::size_t>(end - rest.data());
      return value;
    }
    std::size_t length = 0;
    while (length < rest.size() &&
           (std::isalnum(static_cast<unsigned char>(rest[length])) != 0 || rest[length] == '_')) {
      ++length;
    }
    const auto found = variables_.find(rest.substr(0, length));
    if (found == variables_.end()) reject("a number or one of " + names());
    place_ += length;
    return found->second;
  }

  [[nodiscard]] std::string names() const {
    std::string names;
    for (const auto& [name, value] : variables_)
      names += (names.empty() ? "" : ", ") + name;
    return names;
  }

  using Operation = bool (*)(std::int64_t, std::int64_t, std::int64_t*);
  std::int64_t checked(Operation operation, std::int64_t left, std::int64_t right) const {
    std::int64_t value = 0;
    if (operation(left, right, &value)) reject("a value that fits 64 bits before");
    return value;
  }

  std::string_view text_;
  const Variables& variables_;
  std::size_t place_ = 0;
  int depth_ = 0;
};

}  // namespace

bool holds(std::string_view expression, const Variables& variables) {
  return Evaluation(expression, variables).comparison();
}

}  // namespace stagger::cli
