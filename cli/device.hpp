#pragma once

namespace stagger::cli {

/// Whether there is a GPU to run on; says on standard error if not.
[[nodiscard]] bool has_device();

}  // namespace stagger::cli
