#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace stagger {

/// Returns the text behind the byte order mark that spreadsheets and editors put before UTF-8.
[[nodiscard]] constexpr std::string_view without_bom(std::string_view text) {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  return text.starts_with(kMark) ? text.substr(kMark.size()) : text;
}

/// `1 head`, `4 heads`.
[[nodiscard]] inline std::string counted(std::int64_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

/// `1 case holds`, `4 cases hold`: what some things do.
[[nodiscard]] inline const char* does(std::int64_t count, const char* one_does,
                                      const char* many_do) {
  return count == 1 ? one_does : many_do;
}

/// Bytes in decimal units for people: `512 bytes`, `33.3 kB`, `3.5 MB`, `17.9 GB`. Requires 0 and
/// more.
[[nodiscard]] std::string decimal_bytes(std::int64_t bytes);

}  // namespace stagger
