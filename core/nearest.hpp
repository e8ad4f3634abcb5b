#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stagger {

/// The known names that a mistyped word most likely means, nearest first: those that it differs
/// from by the fewest letters left out, put in, replaced or swapped, at most a third of them, and
/// those that it begins. At most three. O(known * letters^2).
[[nodiscard]] std::vector<std::string> nearest(std::string_view word,
                                               std::span<const std::string> known);

/// `unknown mask 'causa'; did you mean causal? known: full, causal`, without the question if
/// nothing is near. Letters that no terminal shows are replaced, and long words cut.
[[nodiscard]] std::string unknown_name(std::string_view what, std::string_view word,
                                       std::span<const std::string> known);

/// The names of rows that have a `name`, in their order.
template <class Rows>
[[nodiscard]] std::vector<std::string> names_of(const Rows& rows) {
  std::vector<std::string> names;
  for (const auto& row : rows) {
    if constexpr (requires { row->name; }) {
      names.emplace_back(row->name);
    } else {
      names.emplace_back(row.name);
    }
  }
  return names;
}

/// `a, b, c`; `none` if there are none.
[[nodiscard]] std::string listed(std::span<const std::string> names);

/// A word from outside as a message shows it: within quotes, no control characters, at most 60
/// bytes of it.
[[nodiscard]] std::string in_quotes(std::string_view word);

}  // namespace stagger
