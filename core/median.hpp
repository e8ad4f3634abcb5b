#pragma once

#include <algorithm>
#include <iterator>
#include <vector>

namespace stagger {

/// Returns the middle one of some values, the upper of two; 0 of none. O(values).
template <class Number>
[[nodiscard]] Number median(std::vector<Number> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace stagger
