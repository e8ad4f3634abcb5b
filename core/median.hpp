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

/// Returns the middle one of some values, the mean of the two in the middle; 0 of none. O(values).
[[nodiscard]] inline double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 != 0) return *middle;
  return 0.5 * (*middle + *std::max_element(values.begin(), middle));
}

}  // namespace stagger
