#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stagger {

/// Where something is in a text, from 1; 0 where that is not known. Columns count code points.
struct TextPlace {
  std::int64_t line = 0;
  std::int64_t column = 0;
  friend bool operator==(const TextPlace&, const TextPlace&) = default;
};

/// From a first code point to the one behind the last.
struct TextRange {
  TextPlace begin = {};
  TextPlace end = {};
  friend bool operator==(const TextRange&, const TextRange&) = default;
};

/// Code points of UTF-8; of other bytes, those that could begin one.
[[nodiscard]] std::int64_t code_points(std::string_view text);

/// Where values are in a JSON text, by their pointers (`/lanes/3/0`; empty: the whole). The
/// text must have been parsed: nothing is checked here. A pointer that leads nowhere has no place.
/// O(text + pointers).
[[nodiscard]] std::vector<TextRange> json_places(std::string_view text,
                                                 std::span<const std::string> pointers);

}  // namespace stagger
