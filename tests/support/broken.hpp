#pragma once

#include "tests/support/refusal.hpp"

#include <algorithm>
#include <sstream>
#include <string>

namespace stagger::test {

/// What is said of a text with one piece left out, or another one in its place, at every place; a
/// piece begins with one of `pieces`, which stays or goes too. `read` returns what it understood.
template <class Read>
void break_everywhere(std::ostringstream& text, const std::string& whole, const char* pieces,
                      Read read) {
  std::string last;
  for (std::size_t begin = 0; begin < whole.size();) {
    const std::size_t end = std::min(whole.find_first_of(pieces, begin + 1), whole.size());
    const auto add = [&](std::size_t kept, const char* other) {
      const std::string changed = whole.substr(0, kept) + other + whole.substr(end);
      const std::string line = said([&] { return std::string(read(changed)); });
      if (line != last) text << "  at " << kept << " '" << other << "': " << line << "\n";
      last = line;
    };
    for (const char* other : {"", ":", "-1", "99"})
      add(begin, other);
    for (const char* other : {"0", "1", "99", "null", "\"x\""})
      add(begin + 1, other);
    begin = end;
  }
}

}  // namespace stagger::test
