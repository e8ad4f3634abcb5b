#pragma once

namespace stagger {

/// `major.minor.patch` of the library.
[[nodiscard]] const char* version();

}  // namespace stagger
