#pragma once

#include "workbench/optimization.hpp"

#include <vector>

namespace stagger::workbench {

/// What might lower the bound that binds: one more SM, a KV tile in two, smaller KV tiles. A bound
/// that `stop` cuts short says nothing, and ends the advice.
[[nodiscard]] std::vector<Advice> advise(
    const Optimization& optimization, const dag::Stop& stop = [] { return false; });

}  // namespace stagger::workbench
