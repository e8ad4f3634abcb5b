#include "core/nearest.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace stagger {
namespace {

constexpr std::size_t kLongestWord = 64;  ///< of words that are compared letter by letter

/// Damerau's and Levenshtein's distance, by rows of the usual table; neighbours swap at cost 1.
std::size_t distance(std::string_view left, std::string_view right) {
  std::vector<std::size_t> before(right.size() + 1);
  std::vector<std::size_t> above(right.size() + 1);
  std::vector<std::size_t> row(right.size() + 1);
  for (std::size_t at = 0; at <= right.size(); ++at)
    above[at] = at;
  for (std::size_t down = 1; down <= left.size(); ++down) {
    row[0] = down;
    for (std::size_t at = 1; at <= right.size(); ++at) {
      const std::size_t replaced = above[at - 1] + (left[down - 1] == right[at - 1] ? 0 : 1);
      row[at] = std::min({replaced, above[at] + 1, row[at - 1] + 1});
      const bool swapped =
          down > 1 && at > 1 && left[down - 1] == right[at - 2] && left[down - 2] == right[at - 1];
      if (swapped) row[at] = std::min(row[at], before[at - 2] + 1);
    }
    before.swap(above);
    above.swap(row);
  }
  return above[right.size()];
}

}  // namespace

std::vector<std::string> nearest(std::string_view word, std::span<const std::string> known) {
  constexpr std::size_t kMost = 3;
  if (word.empty() || word.size() > kLongestWord) return {};
  std::vector<std::pair<std::size_t, std::string>> found;
  for (const std::string& name : known) {
    if (name.size() > kLongestWord) continue;
    const std::size_t letters = distance(word, name);
    const std::size_t most = std::max<std::size_t>(1, std::max(word.size(), name.size()) / 3);
    const bool begins = word.size() >= 3 && name.starts_with(word);
    if (letters <= most && letters < name.size()) {
      found.emplace_back(letters, name);
    } else if (begins) {
      found.emplace_back(most, name);
    }
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& left, const auto& right) { return left.first < right.first; });
  std::vector<std::string> names;
  for (const auto& [letters, name] : found) {
    // What is much farther than the nearest is another word.
    if (names.size() < kMost && letters <= found.front().first + 1) names.push_back(name);
  }
  return names;
}

std::string unknown_name(std::string_view what, std::string_view word,
                         std::span<const std::string> known) {
  std::string text = "unknown " + std::string(what) + " " + in_quotes(word) + "; ";
  std::string likely;
  for (const std::string& name : nearest(word, known))
    likely += (likely.empty() ? "did you mean " : " or ") + name;
  if (!likely.empty()) text += likely + "? ";
  return text + "known: " + listed(known);
}

std::string listed(std::span<const std::string> names) {
  std::string text;
  for (const std::string& name : names)
    text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "none" : text;
}

std::string in_quotes(std::string_view word) {
  constexpr std::size_t kShown = 60;
  std::string text = "'";
  for (const char letter : word.substr(0, kShown)) {
    const auto byte = static_cast<unsigned char>(letter);
    text += byte < 0x20 || byte == 0x7f ? '?' : letter;
  }
  return text + (word.size() > kShown ? "...'" : "'");
}

}  // namespace stagger
