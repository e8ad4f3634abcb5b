#pragma once

#include "workbench/block/transformer.hpp"

#include <span>

namespace stagger::workbench {

/// The machine profiles of configs/machines, as they were when this was built.
[[nodiscard]] std::span<const block::BuiltinFile> builtin_machines();

}  // namespace stagger::workbench
