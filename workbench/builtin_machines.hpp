#pragma once

#include "core/machine.hpp"
#include "workbench/block/transformer.hpp"

#include <span>
#include <string_view>

namespace stagger::workbench {

/// The machine profiles of configs/machines, as they were when this was built.
[[nodiscard]] std::span<const block::BuiltinFile> builtin_machines();

/// Reads the one that is called so. Throws Error{usage}, with the names there are, if none is.
[[nodiscard]] Machine builtin_machine(std::string_view name);

}  // namespace stagger::workbench
