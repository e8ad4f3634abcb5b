#pragma once

#include "core/timing.hpp"
#include "workbench/designs/plan.hpp"

namespace stagger::designs {

inline constexpr Ticks kLaunchNs = 3'000;        ///< of any kernel
inline constexpr Ticks kShortestPassNs = 3'000;  ///< of a pass, however few its bytes

/// What a pass takes in ns, its launches among it, with device memory of so many bytes a ns.
[[nodiscard]] Ticks pass_ns(const Pass& pass, std::int64_t rate);

}  // namespace stagger::designs
