// What is said of texts with one word wrong, kept in tests/golden: every number of the corpora made
// a string, every string a number, every key another one. A number's message has its range.

#include "core/error.hpp"
#include "tests/fuzz/corpus.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/golden.hpp"

#include <algorithm>
#include <cctype>
#include <set>
#include <string>
#include <vector>

namespace stagger::test {
namespace {

/// A string, a key or a number of a JSON text.
struct Word {
  std::size_t begin = 0;
  std::size_t end = 0;
  char kind = ' ';  ///< s, k, n
};

std::vector<Word> words_of(const std::string& text) {
  std::vector<Word> words;
  for (std::size_t at = 0; at < text.size();) {
    Word word{.begin = at};
    if (text[at] == '"') {
      for (++at; at < text.size() && text[at] != '"'; ++at)
        at += text[at] == '\\' ? 1 : 0;
      word.end = ++at;
      const std::size_t behind = text.find_first_not_of(" \n", at);
      word.kind = behind != std::string::npos && text[behind] == ':' ? 'k' : 's';
    } else if (std::isdigit(static_cast<unsigned char>(text[at])) != 0) {
      at = std::min(text.find_first_not_of("0123456789.eE+-", at), text.size());
      word.end = at;
      word.kind = 'n';
    } else {
      ++at;
      continue;
    }
    words.push_back(word);
  }
  return words;
}

std::string refusal(const Reader& reader, const std::string& text) {
  try {
    reader.read(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::string refusals(const Reader& reader, const std::string& text) {
  std::string said;
  std::set<std::string> seen;
  for (const Word& word : words_of(text)) {
    const std::string other = word.kind == 'n' ? "\"x\"" : word.kind == 'k' ? "\"zz\"" : "7";
    const std::string line = refusal(
        reader, text.substr(0, word.begin) + other + text.substr(word.end, std::string::npos));
    const std::string was = text.substr(word.begin, word.end - word.begin);
    const std::string all = was + ": " + (line.empty() ? "(is read)" : line) + "\n";
    if (seen.insert(all).second) said += all;
  }
  return said;
}

TEST_CASE("what is said of a wrong word is as kept, for every word of every kind of file") {
  for (const Reader& reader : readers()) {
    std::string said;
    for (const auto& [file, text] : corpus_of(reader)) {
      if (file.ends_with(".json")) said += "-- " + file + "\n" + refusals(reader, text);
    }
    if (!said.empty()) {
      CHECK(golden_difference(std::string("refusals-") + reader.name + ".txt", said) == "");
    }
  }
}

/// Where the objects of a JSON text begin.
std::vector<std::size_t> objects_of(const std::string& text) {
  std::vector<std::size_t> objects;
  bool quoted = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (quoted && text[at] == '\\') {
      ++at;
    } else if (text[at] == '"') {
      quoted = !quoted;
    } else if (!quoted && text[at] == '{') {
      objects.push_back(at);
    }
  }
  return objects;
}

TEST_CASE("no object of any file has a key that nobody knows") {
  // Other people's files, of which a few keys are read.
  const std::set<std::string> foreign = {"tensors"};
  std::int64_t refused = 0;
  for (const Reader& reader : readers()) {
    for (const auto& [file, text] : corpus_of(reader)) {
      if (!file.ends_with(".json") || !refusal(reader, text).empty()) continue;
      for (const std::size_t object : objects_of(text)) {
        std::string more = text;
        const bool empty = text[text.find_first_not_of(" \n", object + 1)] == '}';
        more.insert(object + 1, empty ? "\"zz\": 0" : "\"zz\": 0, ");
        CAPTURE(file, more.substr(object, 60));
        const std::string said = refusal(reader, more);
        if (foreign.contains(reader.name)) {
          CHECK(said == "");
          continue;
        }
        CHECK(said.find("zz") != std::string::npos);
        ++refused;
      }
    }
  }
  CHECK(refused > 100);
}

}  // namespace
}  // namespace stagger::test
