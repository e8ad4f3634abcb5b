#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stagger {

/// Where something is in a text, from 1; 0 where that is not known. Columns count bytes.
struct TextPlace {
  std::int64_t line = 0;
  std::int64_t column = 0;
  friend bool operator==(const TextPlace&, const TextPlace&) = default;
};

/// The places of values in a JSON text, by their pointers (`/lanes/3/0`; empty: the whole). The
/// text must have been parsed: nothing is checked here. A pointer that leads nowhere has no place.
/// O(text + pointers).
[[nodiscard]] std::vector<TextPlace> json_places(std::string_view text,
                                                 std::span<const std::string> pointers);

}  // namespace stagger
