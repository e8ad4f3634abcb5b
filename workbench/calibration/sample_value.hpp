#pragma once

#include "core/machine.hpp"

#include <cstdint>
#include <vector>

namespace stagger::workbench {

using Samples = std::vector<std::int64_t>;  ///< ns

/// A value and its quartiles, all later by an offset, at least 0.
[[nodiscard]] MeasuredNs shifted(const MeasuredNs& measured, Ticks offset);

/// The interquartile mean and the quartiles; all 0 without samples. O(n log n).
[[nodiscard]] MeasuredNs value_of(Samples samples);

}  // namespace stagger::workbench
