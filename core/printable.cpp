#include "core/printable.hpp"

#include <cstdint>

namespace stagger {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";

/// The bytes of the printable character that `text` begins with; 0 if it begins with none.
std::size_t character_length(std::string_view text) {
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
  if (byte(0) < 0x80) return byte(0) >= 0x20 && byte(0) != 0x7f ? 1 : 0;
  const std::size_t length = byte(0) >= 0xf0 ? 4 : byte(0) >= 0xe0 ? 3 : 2;
  if (byte(0) < 0xc2 || byte(0) > 0xf4 || text.size() < length) return 0;
  std::uint32_t code = byte(0) & (0x7fU >> length);
  for (std::size_t at = 1; at < length; ++at) {
    if ((byte(at) & 0xc0) != 0x80) return 0;
    code = code << 6 | (byte(at) & 0x3fU);
  }
  constexpr std::uint32_t kLeast[] = {0, 0, 0xa0, 0x800, 0x10000};  // C1 ends before U+00A0
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  return code >= kLeast[length] && code <= 0x10ffff && !surrogate ? length : 0;
}

/// The bytes that one replacement stands for: a whole control character, or a byte that is not
/// UTF-8.
std::size_t replaced_length(std::string_view text) {
  const bool c1 =
      text.size() > 1 && text[0] == '\xc2' && (static_cast<unsigned char>(text[1]) & 0xe0) == 0x80;
  return c1 ? 2 : 1;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const std::size_t length = character_length(text);
    shown += length > 0 ? text.substr(0, length) : kReplacement;
    text.remove_prefix(length > 0 ? length : replaced_length(text));
  }
  return shown;
}

std::string printable_xml(std::string_view text) {
  std::string shown;
  for (const char letter : printable(text)) {
    if (letter == '&') {
      shown += "&amp;";
    } else if (letter == '<') {
      shown += "&lt;";
    } else if (letter == '>') {
      shown += "&gt;";
    } else if (letter == '"') {
      shown += "&quot;";
    } else {
      shown += letter;
    }
  }
  return shown;
}

std::string printable_ascii(std::string_view text) {
  std::string shown;
  for (const char letter : printable(text)) {
    const auto byte = static_cast<unsigned char>(letter);
    if (byte < 0x80) shown += letter;
    if (byte >= 0xc0) shown += '?';  // its further bytes are below
  }
  return shown;
}

}  // namespace stagger
