// The corpora with a few words, bytes or pieces changed, by a seed: what scripts/fuzz does for an
// hour, for a second or two in every build and under its sanitizers.

#include "core/error.hpp"
#include "tests/fuzz/corpus.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace stagger::test {
namespace {

const std::vector<std::string> kWords = {"0",
                                         "1",
                                         "-1",
                                         "2",
                                         "7",
                                         "2147483647",
                                         "2147483648",
                                         "9223372036854775807",
                                         "9223372036854775808",
                                         "1e308",
                                         "1e-9",
                                         "0.5",
                                         "null",
                                         "true",
                                         "false",
                                         "[]",
                                         "{}",
                                         "\"\"",
                                         "\"x\"",
                                         "\"full\"",
                                         "\"causal\"",
                                         "\"tiles\"",
                                         "\"ns\"",
                                         ",",
                                         ":",
                                         "[",
                                         "]",
                                         "{",
                                         "}",
                                         "\"",
                                         "\\u0000",
                                         "\xef\xbb\xbf",
                                         "\n",
                                         "\x1b[31m",
                                         "\xff"};

std::size_t place(Random& random, const std::string& text) {
  return static_cast<std::size_t>(random.between(0, std::ssize(text)));
}

/// Replaces a run of letters and digits, or a sign, by one of the words or by another of the
/// text's.
void change_word(Random& random, std::string& text) {
  const std::size_t begin =
      std::min(text.find_first_not_of(" \n", place(random, text)), text.size());
  const std::size_t end = std::min(
      std::max(text.find_first_of("\",:[]{} \n=+", begin), std::min(begin + 1, text.size())),
      text.size());
  std::string other = kWords[static_cast<std::size_t>(random.between(0, std::ssize(kWords) - 1))];
  if (random.chance(3))
    other = text.substr(place(random, text), static_cast<std::size_t>(random.between(1, 12)));
  text.replace(begin, end - begin, other);
}

std::string mutated(Random& random, std::string text) {
  for (std::int64_t edits = random.between(1, 4); edits > 0; --edits) {
    const std::size_t at = place(random, text);
    const auto some = static_cast<std::size_t>(random.between(1, 30));
    switch (random.between(0, 5)) {
      case 0:
        text.erase(at, some);
        break;
      case 1:
        text.insert(at, text.substr(place(random, text), some));
        break;
      case 2:
        if (at < text.size()) text[at] = static_cast<char>(random.between(-128, 127));
        break;
      default:
        change_word(random, text);
    }
  }
  return text;
}

TEST_CASE("texts that are nearly right are read, or refused in words") {
  constexpr int kEach = 500;
  Random random(seed(131));
  std::int64_t read = 0;
  std::int64_t refused = 0;
  for (const Reader& reader : readers()) {
    for (const auto& [file, text] : corpus_of(reader)) {
      for (int round = 0; round < kEach; ++round) {
        const std::string input = mutated(random, text);
        CAPTURE(file, round, input);
        try {
          reader.read(input);
          ++read;
        } catch (const Error&) {
          ++refused;
        }
      }
    }
  }
  CHECK(read > 200);
  CHECK(refused > 5'000);
}

}  // namespace
}  // namespace stagger::test
