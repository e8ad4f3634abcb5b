#pragma once

#include "core/table.hpp"

#include <cstdint>

namespace stagger::workbench {

/// What an irregular table's name begins with.
inline constexpr const char* kIrregularName = "irregular ";

/// A table that no rule would choose: chains shuffled and dealt to the SM with the fewest tasks so
/// far, their Q tiles ascending, rotated or shuffled, and ranks by the tasks' starts in a play
/// without waiting whose tasks last up to twice as long as others. No ranks contradict a lane, so
/// it ends on resident SMs. The same for the same seed, on every platform. O(tasks log tasks).
[[nodiscard]] Table irregular_table(const Problem& problem, std::uint64_t seed);

}  // namespace stagger::workbench
