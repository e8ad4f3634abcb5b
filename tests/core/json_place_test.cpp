#include "core/json_place.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/random.hpp"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace stagger {
namespace {

/// `1:8-1:9`; columns are those of a text of one byte a letter.
std::string words(const TextRange& range) {
  const auto place = [](const TextPlace& of) {
    return std::to_string(of.line) + ":" + std::to_string(of.column);
  };
  return place(range.begin) + "-" + place(range.end);
}

TEST_CASE("values of a JSON text are found by their pointers, from beginning to end") {
  const std::string text =
      "\xEF\xBB\xBF{\"a\": [1, {\"b\": \"x,]}\\\"\"},\n  [[], [2]]],\n \"c\": {\"a\": null}}";
  const std::vector<std::string> pointers = {"",     "/a", "/a/0", "/a/1/b",   "/a/2/1/0", "/c/a",
                                             "/a/3", "/b", "/a/2", "/a/1/b/0", "/a/2/1",   "/c"};
  const std::vector<std::string> expected = {"1:1-3:19", "1:7-2:13",  "1:8-1:9",  "1:17-1:25",
                                             "2:9-2:10", "3:13-3:17", "0:0-0:0",  "0:0-0:0",
                                             "2:3-2:12", "0:0-0:0",   "2:8-2:11", "3:7-3:18"};
  std::vector<std::string> found;
  for (const TextRange& range : json_places(text, pointers))
    found.push_back(words(range));
  CHECK(found == expected);
}

TEST_CASE("columns count code points, whatever is in front of a value") {
  const std::string text = "[\"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\", 12, \"\xC3\xA9\"]";
  const std::vector<std::string> pointers = {"/0", "/1", "/2"};
  const std::vector<TextRange> found = json_places(text, pointers);
  CHECK(words(found[0]) == "1:2-1:7");
  CHECK(words(found[1]) == "1:9-1:11");
  CHECK(words(found[2]) == "1:13-1:16");
}

/// Writes a JSON text by chance, and notes where each value begins and ends while it does.
class Writing {
 public:
  explicit Writing(test::Random& random) : random_(random) {
    space();
    value("", 0);
    space();
  }

  std::string text;
  std::vector<std::pair<std::string, TextRange>> places;  ///< by pointer
  std::vector<std::size_t> depths;                        ///< of their pointers

 private:
  void value(const std::string& pointer, std::size_t depth) {
    const std::size_t own = places.size();
    places.emplace_back(pointer, TextRange{.begin = here()});
    depths.push_back(depth);
    const std::int64_t kind = random_.between(0, depth == 0 ? 6 : depth < 4 ? 4 : 2);
    constexpr const char* kScalars[] = {"17", "-2.5e3", "null", "true"};
    if (kind >= 3) {
      items(pointer, depth, kind % 2 == 1);
    } else {
      text += kind == 0 ? string() : kScalars[random_.between(0, 3)];
    }
    places[own].second.end = here();
  }

  [[nodiscard]] TextPlace here() const {
    const auto line_begin = static_cast<std::int64_t>(text.rfind('\n') + 1);
    return {line_, std::ssize(text) - line_begin + 1};
  }

  void items(const std::string& pointer, std::size_t depth, bool array) {
    text += array ? '[' : '{';
    const std::int64_t count = random_.between(0, 3);
    for (std::int64_t item = 0; item < count; ++item) {
      space();
      std::string name = std::to_string(item);
      if (!array) {
        name = std::string(1, static_cast<char>('a' + item)) + "],";
        text += '"' + name + '"';
        space();
        text += ':';
        space();
      }
      value(pointer + "/" + name, depth + 1);
      space();
      if (item + 1 < count) text += ',';
    }
    if (count == 0) space();
    text += array ? ']' : '}';
  }

  std::string string() {
    constexpr const char* kStrings[] = {R"("")", R"("x")", R"("\"]")", R"("\\")", R"("{,: \n")"};
    return kStrings[random_.between(0, 4)];
  }

  void space() {
    constexpr const char* kSpaces[] = {"", "", " ", "\n", "\r\n\t", "\n\n  "};
    for (const char letter : std::string(kSpaces[random_.between(0, 5)])) {
      text += letter;
      line_ += letter == '\n' ? 1 : 0;
    }
  }

  test::Random& random_;
  std::int64_t line_ = 1;
};

TEST_CASE("every value of a text that is made up is found where it was written, and none beside") {
  test::Random random(test::seed(43));
  std::int64_t found = 0;
  std::int64_t scalars = 0;
  for (int text = 0; text < 2'000; ++text) {
    const Writing written(random);
    CAPTURE(written.text);
    scalars += written.places.size() == 1 ? 1 : 0;
    // All pointers, and those of one depth alone: what is deeper is gone through without them.
    for (std::size_t depth = 0; depth < 6; ++depth) {
      std::vector<std::string> pointers = {"/none", "/0/none"};
      std::vector<TextRange> expected = {{}, {}};
      for (std::size_t value = 0; value < written.places.size(); ++value) {
        if (depth < 5 && written.depths[value] != depth) continue;
        pointers.push_back(written.places[value].first);
        expected.push_back(written.places[value].second);
      }
      if (json_places(written.text, pointers) != expected) FAIL_CHECK("at depth " << depth);
      if (depth == 0) CHECK(json_places(written.text, std::vector{pointers[2]})[0] == expected[2]);
      found += std::ssize(pointers) - 2;
    }
  }
  CHECK(found > 10'000);
  CHECK(scalars > 100);
  CHECK(json_places("12", std::vector<std::string>{""})[0] == TextRange{{1, 1}, {1, 3}});
}

}  // namespace
}  // namespace stagger
