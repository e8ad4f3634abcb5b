#pragma once

#include "core/timing.hpp"

#include <cstdint>
#include <vector>

namespace stagger::dag {

/// What is known of the smallest makespan of jobs on identical machines (P || Cmax).
struct Packing {
  Ticks lower = 0;  ///< proven
  Ticks upper = 0;  ///< of a packing that was found
  [[nodiscard]] bool exact() const { return lower == upper; }
};

/// Packs whole jobs on `machines` machines: bounds, longest-first, then branch and bound of at
/// most `nodes` nodes if they differ. Requires machines >= 1, jobs >= 0 whose sum fits Ticks.
/// O(jobs log jobs); the search, for at most 128 jobs on 64 machines, O(nodes * machines^2).
/// Source: Graham 1969 (longest first); Dell'Amico and Martello 1995 (the bounds).
[[nodiscard]] Packing pack(std::vector<Ticks> jobs, std::int32_t machines,
                           std::int64_t nodes = 50'000);

}  // namespace stagger::dag
