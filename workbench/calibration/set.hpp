#pragma once

#include "core/table.hpp"

#include <cstdint>
#include <vector>

namespace stagger::workbench {

/// The tables that a kernel is calibrated on: full and causal masks of 5 to 28 KV tiles, enough
/// heads for one or two chains an SM, under every fixed order that applies and some that no rule
/// would choose. None has a sequence of the paper's grid (powers of two from 512), so that what a
/// profile predicts there it has not seen. Tables of one problem are next to each other.
[[nodiscard]] std::vector<Table> calibration_set(const TileShape& tile, std::int32_t sms);

/// A few more for a kernel with passes over whole tensors, which small problems leave in the L2
/// cache: full and causal masks, a window and documents of 6 to 28 KV tiles and 24 or 48 * 2^20
/// elements of Q, so many of which are 48 and 96 MiB in 16 bits, so that a run is most of it a
/// steady state; each under those of six orders that apply, from such as keep every SM busy to such
/// as make most of them wait. None is of the paper's grid either. Requires head_dim >= 1.
[[nodiscard]] std::vector<Table> large_calibration_set(const TileShape& tile, std::int32_t sms,
                                                       std::int64_t head_dim);

/// Causal masks of 16 KV tiles, groups of eight heads whose parts of dK and dV are added in order:
/// two chains an SM, which end together, and eight.
[[nodiscard]] std::vector<Table> parts_calibration_set(const TileShape& tile, std::int32_t sms);

}  // namespace stagger::workbench
