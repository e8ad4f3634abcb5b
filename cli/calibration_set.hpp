#pragma once

#include "core/table.hpp"

#include <cstdint>
#include <vector>

namespace stagger::cli {

/// The tables that a kernel is calibrated on: full and causal masks of 5 to 28 KV tiles, enough
/// heads for one or two chains an SM, under every fixed order that applies. None has a sequence of
/// the paper's grid (powers of two from 512), so that what a profile predicts there it has not
/// seen. Tables of one problem are next to each other.
[[nodiscard]] std::vector<Table> calibration_set(const TileShape& tile, std::int32_t sms);

}  // namespace stagger::cli
