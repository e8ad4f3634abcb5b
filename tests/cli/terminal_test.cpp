// How wide a terminal is taken to be, and how text is broken to fit it.

#include "cli/terminal.hpp"

#include "tests/support/catch.hpp"

#include <cstdlib>
#include <string>

namespace stagger::cli {
namespace {

constexpr int kNoTerminal = -1;

TEST_CASE("without a terminal COLUMNS says how wide it is, from 20 to 10,000, else it is 80") {
  const char* const before = std::getenv("COLUMNS");
  const std::string kept = before == nullptr ? "" : before;
  const auto width = [](const char* columns) {
    ::setenv("COLUMNS", columns, 1);
    return terminal_width(kNoTerminal);
  };
  CHECK(width("20") == 20);
  CHECK(width("10000") == 10'000);
  for (const char* columns : {"19", "10001", "0", "-30", "", "wide", "99999999999999999999"})
    CHECK(width(columns) == 80);
  ::unsetenv("COLUMNS");
  CHECK(terminal_width(kNoTerminal) == 80);
  if (before != nullptr) ::setenv("COLUMNS", kept.c_str(), 1);
}

TEST_CASE("columns are letters: no bytes, no colours") {
  CHECK(width_of("") == 0);
  CHECK(width_of("abc") == 3);
  CHECK(width_of("\u00b5s \u2026") == 4);
  CHECK(width_of("\x1b[1mab\x1b[0mc") == 3);
  CHECK(width_of("\x1b[38;5;1mm") == 1);
}

TEST_CASE("lines are broken at the last space that fits, and what follows is indented") {
  CHECK(wrapped("one two three", 13, 2) == "one two three");
  CHECK(wrapped("one two three", 12, 2) == "one two\n  three");
  CHECK(wrapped("one two three", 7, 2) == "one two\n  three");
  CHECK(wrapped("one two three", 6, 2) == "one\n  two\n  three");
  CHECK(wrapped("longest of words", 3, 1) == "longest\n of\n words");
  CHECK(wrapped("\x1b[1mone\x1b[0m two", 7, 2) == "\x1b[1mone\x1b[0m two");
  CHECK(labelled("name", "value", 40) == "name          value\n");
  CHECK(labelled("name", "a value of words", 22) ==
        "name          a value\n              of words\n");
}

}  // namespace
}  // namespace stagger::cli
