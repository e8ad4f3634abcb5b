#pragma once

#include "core/timing.hpp"

#include <cstdint>
#include <functional>
#include <vector>

namespace stagger::dag {

/// Whether work is to end with what it has, asked now and then.
using Stop = std::function<bool()>;

/// What is known of the smallest makespan of jobs on identical machines (P || Cmax).
struct Packing {
  Ticks lower = 0;  ///< proven
  Ticks upper = 0;  ///< a packing that was found
  [[nodiscard]] bool exact() const { return lower == upper; }
};

/// Nodes of a packing's search: a second.
inline constexpr std::int64_t kMostNodes = 2'000'000;

/// Packs whole jobs on `machines` machines: bounds, longest-first, then, if they differ, a search
/// of at most `nodes` nodes for a packing by each deadline from the lower bound on, until `stop` is
/// true. Requires machines >= 1, jobs >= 0 whose sum times 2 fits Ticks.
/// O(jobs log jobs + nodes * lengths). Source: Graham 1969 (longest first); Dell'Amico and Martello
/// 1995 (the bounds); Korf 2003 (bin completion).
[[nodiscard]] Packing pack(
    std::vector<Ticks> jobs, std::int32_t machines, std::int64_t nodes = kMostNodes,
    const Stop& stop = [] { return false; });

}  // namespace stagger::dag
