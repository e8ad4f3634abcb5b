#pragma once

namespace stagger::cli {

/// Whether there is a GPU to run on; says on standard error if not, and what there is instead.
[[nodiscard]] bool has_device(const char* instead = "`--device cpu` runs the same on threads");

}  // namespace stagger::cli
