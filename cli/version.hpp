#pragma once

namespace stagger::cli {

/// The commit that was built, with `+` if files differed from it; empty if it is not known. In a
/// file that scripts/cmake/commit.cmake writes.
[[nodiscard]] const char* commit();

}  // namespace stagger::cli
