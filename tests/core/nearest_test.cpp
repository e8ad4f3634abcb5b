#include "core/nearest.hpp"

#include "tests/support/catch.hpp"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

namespace stagger {
namespace {

using Names = std::vector<std::string>;

const Names kKnown = {"schedule", "sms", "seq", "seq-q", "seq-kv", "spt", "analyze"};

TEST_CASE("a mistyped word is near the name that was meant") {
  CHECK(nearest("shedule", kKnown) == Names{"schedule"});    // left out
  CHECK(nearest("scheduule", kKnown) == Names{"schedule"});  // put in
  CHECK(nearest("analyse", kKnown) == Names{"analyze"});     // replaced
  CHECK(nearest("smss", kKnown) == Names{"sms"});
  CHECK(nearest("spt", kKnown).front() == "spt");
  CHECK(nearest("tsp", Names{"pst", "tps"}) == Names{"tps"});  // swapped
  CHECK(nearest("sched", kKnown) == Names{"schedule"});        // begun
}

TEST_CASE("what is near nothing is near nothing") {
  CHECK(nearest("frobnicate", kKnown).empty());
  CHECK(nearest("", kKnown).empty());
  CHECK(nearest("x", kKnown).empty());
  CHECK(nearest(std::string(100'000, 's'), kKnown).empty());
}

TEST_CASE("an unknown name's message says what is known, and what was meant") {
  CHECK(unknown_name("mask", "causa", Names{"full", "causal"}) ==
        "unknown mask 'causa'; did you mean causal? known: full, causal");
  CHECK(unknown_name("mask", "diagonal", Names{"full", "causal"}) ==
        "unknown mask 'diagonal'; known: full, causal");
  CHECK(unknown_name("key", "x", Names{}) == "unknown key 'x'; known: none");
}

TEST_CASE("words from outside are shown without control characters and cut") {
  CHECK(in_quotes("a\033[31m\nb") == "'a?[31m?b'");
  CHECK(in_quotes(std::string(100, 'x')) == "'" + std::string(60, 'x') + "...'");
}

/// The fewest letters to put in, leave out, replace or swap with a neighbour, by its definition: of
/// the last letters, one of these happens.
std::size_t letters_between(std::string_view left, std::string_view right) {
  if (left.empty() || right.empty()) return left.size() + right.size();
  const std::string_view less = left.substr(0, left.size() - 1);
  const std::string_view fewer = right.substr(0, right.size() - 1);
  if (left.back() == right.back()) return letters_between(less, fewer);
  std::size_t least = std::min(
      {letters_between(less, fewer), letters_between(less, right), letters_between(left, fewer)});
  const std::size_t many = std::min(left.size(), right.size());
  if (many > 1 && left.back() == right[right.size() - 2] && left[left.size() - 2] == right.back()) {
    least = std::min(
        least, letters_between(left.substr(0, left.size() - 2), right.substr(0, right.size() - 2)));
  }
  return least + 1;
}

/// Every word of so many letters a, b and c.
Names words_of(std::size_t letters) {
  if (letters == 0) return {""};
  Names words;
  for (const std::string& word : words_of(letters - 1)) {
    for (const char letter : {'a', 'b', 'c'})
      words.push_back(word + letter);
  }
  return words;
}

/// How near a name is as the rule says it, if it is near: a third of the longer word may be wrong,
/// at least one letter and fewer than the name has; a word of three letters or more may be begun.
std::optional<std::size_t> nearness(const std::string& word, const std::string& name) {
  const std::size_t letters = letters_between(word, name);
  const std::size_t third = std::max<std::size_t>(std::max(word.size(), name.size()) / 3, 1);
  if (letters <= third && letters < name.size()) return letters;
  if (word.size() >= 3 && name.starts_with(word)) return third;
  return std::nullopt;
}

TEST_CASE("every two short words are near each other as the definition says") {
  std::int64_t near = 0;
  for (const std::size_t left : {1U, 2U, 3U, 4U}) {
    for (const std::size_t right : {1U, 2U, 3U, 4U, 5U, 6U}) {
      for (const std::string& word : words_of(left)) {
        for (const std::string& name : words_of(right)) {
          if (right > 4 && name < "bc") continue;
          const bool is_near = !nearest(word, Names{name}).empty();
          if (is_near != nearness(word, name).has_value()) FAIL_CHECK(word + ", " + name);
          near += is_near ? 1 : 0;
        }
      }
    }
  }
  CHECK(near > 1'000);
}

TEST_CASE("of several names the nearest three are said, none much farther than the first") {
  const Names known = {"shift", "sheft",    "swift",           "shifts",   "ships", "symmetric",
                       "drift", "sift",     "shift-ascending", "lift",     "hsift", "window",
                       "shi",   "shifting", "descending",      "ascending"};
  for (const std::string word : {"shift", "shfit", "shif", "drifts", "lft", "window-", "symmetrik",
                                 "sifting", "shi", "descendign"}) {
    std::vector<std::pair<std::size_t, std::string>> found;
    for (const std::string& name : known) {
      if (const auto letters = nearness(word, name)) found.emplace_back(*letters, name);
    }
    std::ranges::stable_sort(found, {}, &std::pair<std::size_t, std::string>::first);
    Names want;
    for (const auto& [letters, name] : found) {
      if (want.size() < 3 && letters <= found.front().first + 1) want.push_back(name);
    }
    CAPTURE(word);
    CHECK(nearest(word, known) == want);
    CHECK_FALSE(want.empty());
  }
  // Three letters are as many as may be wrong of ten, and two more than in the nearest.
  CHECK(nearness("descendign", "ascending") == 3U);
  CHECK(nearest("descendign", known) == Names{"descending"});
}

TEST_CASE("words of up to 64 letters are compared") {
  const std::string longest(64, 'x');
  CHECK(nearest(longest, Names{longest}) == Names{longest});
  CHECK(nearest(longest + "x", Names{longest}).empty());
  CHECK(nearest(longest, Names{longest + "x"}).empty());
  CHECK(in_quotes(std::string(60, 'y')) == "'" + std::string(60, 'y') + "'");
  CHECK(in_quotes(std::string(61, 'y')) == "'" + std::string(60, 'y') + "...'");
  CHECK(in_quotes("\x1f \x7e\x7f\xc3\xa9") == "'? ~?\xc3\xa9'");
  CHECK(unknown_name("mask", "fulk", Names{"full", "fulls", "ful"}) ==
        "unknown mask 'fulk'; did you mean full or ful? known: full, fulls, ful");
}

}  // namespace
}  // namespace stagger
