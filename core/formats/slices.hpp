#pragma once

#include "core/key_ranges.hpp"

#include <cstdint>
#include <vector>

namespace stagger::formats {

/// MagiAttention's slices, as the `slices` mask has them: begin and end of each, and its type.
struct Slices {
  std::vector<std::int64_t> q = {};
  std::vector<std::int64_t> kv = {};
  std::vector<std::int64_t> types = {};
};

/// The keys that queries see as slices of which no two share a pair: ranges that go on from query
/// to query, their ends standing still or moving by one, are one. O(ranges log ranges).
[[nodiscard]] Slices slices_of(const KeyRanges& rows);

}  // namespace stagger::formats
