#include "workbench/calibration/sample_value.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace stagger::workbench {

MeasuredNs shifted(const MeasuredNs& measured, Ticks offset) {
  const auto later = [offset](Ticks ns) { return std::max<Ticks>(ns + offset, 0); };
  return {.value = later(measured.value),
          .low = later(measured.low),
          .high = later(measured.high),
          .samples = measured.samples};
}

MeasuredNs value_of(Samples samples) {
  if (samples.empty()) return {};
  std::sort(samples.begin(), samples.end());
  const std::int64_t quarter = std::ssize(samples) / 4;
  const auto begin = samples.begin() + quarter;
  const auto end = samples.end() - quarter;
  const std::int64_t sum = std::accumulate(begin, end, std::int64_t{0});
  const std::int64_t count = end - begin;
  return shifted({.value = std::llround(static_cast<double>(sum) / static_cast<double>(count)),
                  .low = *begin,
                  .high = *(end - 1),
                  .samples = std::ssize(samples)},
                 0);
}

}  // namespace stagger::workbench
