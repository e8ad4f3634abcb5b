#pragma once

#include <span>
#include <string_view>

namespace stagger::test {

/// What reads one kind of text that somebody else wrote.
struct Reader {
  const char* name;  ///< of its corpus too
  /// Reads the text and uses what it says; throws Error where it says nothing. What was read is
  /// read again from what is written of it, and must be the same: else std::logic_error.
  void (*read)(std::string_view text);
};

[[nodiscard]] std::span<const Reader> readers();

}  // namespace stagger::test
