#pragma once

#include "workbench/tickets/rules.hpp"

#include <cstdint>
#include <vector>

namespace stagger::tickets {

/// How the order of lock values goes with the order of launches.
struct LaunchOrder {
  std::int64_t needed = 0;  ///< programs that must be resident at once; 0: no number is enough
  /// Steps that wait for a program that is launched later, the first of each semaphore.
  std::vector<std::int64_t> contrary = {};
  bool reversed = false;  ///< every semaphore's order is that of launches backwards
  /// Whether the order of launches is meant: that of block lists always is, as FlashAttention-4
  /// launches an ordinary grid; else if launching in another order would do, or most semaphores
  /// have that order. Otherwise the programs wait for each other on purpose.
  bool meant = false;
};

/// O(steps log steps).
[[nodiscard]] LaunchOrder launch_order(const Facts& facts);

}  // namespace stagger::tickets
