// Examples in help, word by word at every width: nothing is lost where lines are broken, and they
// are broken only where they must be.

#include "cli/help.hpp"

#include "cli/commands.hpp"
#include "tests/support/catch.hpp"

#include <sstream>
#include <string>
#include <vector>

namespace stagger::cli {
namespace {

/// Words of a line apart by spaces, quotes and what is within them kept.
std::vector<std::string> quoted_words(const std::string& line) {
  std::vector<std::string> words;
  bool quoted = false;
  for (std::size_t at = 0; at < line.size(); ++at) {
    if (line[at] == '\'') quoted = !quoted;
    const bool begins = at == 0 || line[at - 1] == ' ';
    if (line[at] == ' ' && !quoted) continue;
    if (begins && !(quoted && line[at] != '\'')) words.emplace_back();
    words.back() += line[at];
  }
  return words;
}

/// `-` alone is a file.
bool is_option_word(const std::string& word) {
  return word.size() > 1 && word.front() == '-';
}

std::vector<std::string> example_lines(const Command& command, int width) {
  const std::string text = help_text(command, width);
  const std::size_t begin = text.find("Examples:\n");
  REQUIRE(begin != std::string::npos);
  std::vector<std::string> lines;
  std::istringstream rest(text.substr(begin + 10));
  for (std::string line; std::getline(rest, line) && line.starts_with("  ");)
    lines.push_back(line);
  return lines;
}

std::vector<std::string> joined_words(const std::vector<std::string>& lines) {
  std::vector<std::string> words;
  for (const std::string& line : lines) {
    for (const std::string& word : quoted_words(line)) {
      if (word != "\\") words.push_back(word);
    }
  }
  return words;
}

TEST_CASE(
    "examples are broken where they must be, behind an option only if its value fits nowhere") {
  std::int64_t broken = 0;
  std::int64_t parted = 0;
  for (const Command* command : commands()) {
    const std::vector<std::string> whole = joined_words(example_lines(*command, 1'000));
    for (int width = 20; width <= 120; ++width) {
      CAPTURE(command->name, width);
      const auto most = static_cast<std::size_t>(width);
      const std::vector<std::string> lines = example_lines(*command, width);
      if (joined_words(lines) != whole) FAIL_CHECK("words are lost or made");
      for (std::size_t number = 0; number < lines.size(); ++number) {
        const std::vector<std::string> words = quoted_words(lines[number]);
        const bool goes_on = words.back() == "\\";
        CAPTURE(lines[number]);
        if (lines[number].size() > most) CHECK(words.size() - (goes_on ? 1 : 0) <= 1);
        if (!goes_on) continue;
        ++broken;
        const std::vector<std::string> next = quoted_words(lines.at(number + 1));
        const std::string& last = words[words.size() - 2];
        const bool ends = next.size() == 1;
        if (is_option_word(last) && !is_option_word(next.front())) {
          // Six spaces, the option, a space, the value, and what it goes on with.
          CHECK(6 + last.size() + 1 + next.front().size() + (ends ? 0 : 2) > most);
          ++parted;
        } else {
          // The next word, and its value, had no room where the line ends; two columns are ` \`.
          std::size_t needs = lines[number].size() - 2 + 1 + next.front().size();
          std::size_t taken = 1;
          const bool has_value = is_option_word(next.front()) && next.size() > 1 &&
                                 next[1] != "\\" && !is_option_word(next[1]);
          if (has_value) {
            needs += 1 + next[1].size();
            ++taken;
          }
          CHECK(needs + (next.size() > taken ? 2 : 0) > most);
        }
      }
    }
  }
  CHECK(broken > 1'000);
  CHECK(parted > 10);
}

}  // namespace
}  // namespace stagger::cli
