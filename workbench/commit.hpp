#pragma once

namespace stagger::workbench {

/// The commit that is built, with a `+` if files differ from it; empty if that is not known.
[[nodiscard]] const char* commit();

}  // namespace stagger::workbench
