#pragma once

#include <string>

namespace stagger::test {

/// Where a text first differs from the file tests/golden/NAME, as a line of each; empty if it is
/// the same. STAGGER_UPDATE_GOLDEN=1 writes the file instead: read the difference then.
[[nodiscard]] std::string golden_difference(const std::string& name, const std::string& text);

/// A number of 16 digits that other texts hardly share (FNV-1a), where a text is too long to keep.
[[nodiscard]] std::string text_digest(const std::string& text);

}  // namespace stagger::test
