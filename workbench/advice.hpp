#pragma once

#include "workbench/optimization.hpp"

#include <string>
#include <vector>

namespace stagger::workbench {

/// A lower bound that a change of the problem would give.
struct Advice {
  std::string change;
  Ticks lower_bound = 0;
  const char* by = "";
};

/// What might lower the bound that binds: one more SM, a KV tile in two, smaller KV tiles.
[[nodiscard]] std::vector<Advice> advise(const Optimization& optimization);

}  // namespace stagger::workbench
