#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace stagger::cli {

using Variables = std::map<std::string, std::int64_t, std::less<>>;

/// Evaluates a comparison of two integer expressions, such as `makespan == m*(n+1)*(c+r)/2`:
/// + - * / and parentheses, == != <= >= < >, the variables given. Division rounds towards zero.
/// Throws Error{usage} naming the place if it is malformed, a variable is unknown (the known ones
/// are listed), a number overflows or a divisor is 0.
[[nodiscard]] bool holds(std::string_view expression, const Variables& variables);

}  // namespace stagger::cli
