#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

namespace stagger {

/// Returns the middle one of some values, the upper of two; 0 of none. O(values).
[[nodiscard]] inline std::int64_t median(std::vector<std::int64_t> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace stagger
