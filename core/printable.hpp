#pragma once

#include <string>
#include <string_view>

namespace stagger {

/// Words from outside as they may be shown on a terminal or in a picture: U+FFFD in place of every
/// control character (C0, DEL, C1) and of every byte that is not UTF-8.
[[nodiscard]] std::string printable(std::string_view text);

/// printable(), and so that it may stand in the text and the attributes of XML.
[[nodiscard]] std::string printable_xml(std::string_view text);

/// printable() with `?` in place of every character beyond ASCII.
[[nodiscard]] std::string printable_ascii(std::string_view text);

}  // namespace stagger
