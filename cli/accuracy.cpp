#include "cli/accuracy.hpp"

#include "core/error.hpp"

#include <algorithm>
#include <cmath>

namespace stagger::cli {
namespace {

/// Whether `slower` took more than 3 % longer.
bool differ(const Prediction& faster, const Prediction& slower) {
  return 100 * static_cast<double>(slower.measured) > 103 * static_cast<double>(faster.measured);
}

/// Whether both tables are known.
bool are_known(const Prediction& left, const Prediction& right) {
  return left.table != 0 && right.table != 0;
}

/// Whether it may be one table that was measured twice.
bool may_be_alike(const Prediction& left, const Prediction& right) {
  return are_known(left, right) ? left.table == right.table : left.schedule == right.schedule;
}

std::int64_t longer_ppm(const Prediction& faster, const Prediction& slower) {
  return std::llround(
      1e6 * (static_cast<double>(slower.measured) / static_cast<double>(faster.measured) - 1));
}

}  // namespace

Accuracy accuracy_of(const std::vector<Prediction>& predictions) {
  STAGGER_EXPECTS(!predictions.empty());
  Accuracy accuracy;
  std::vector<std::int64_t> errors;
  for (std::size_t index = 0; index < predictions.size(); ++index) {
    errors.push_back(std::llround(1e6 * std::abs(predictions[index].error())));
    if (errors.back() > errors[accuracy.worst]) accuracy.worst = index;
  }
  accuracy.worst_ppm = errors[accuracy.worst];
  const auto middle = errors.begin() + std::ssize(errors) / 2;
  std::nth_element(errors.begin(), middle, errors.end());
  accuracy.median_ppm = *middle;
  for (std::size_t faster = 0; faster < predictions.size(); ++faster) {
    for (std::size_t slower = 0; slower < predictions.size(); ++slower) {
      const Prediction& first = predictions[faster];
      const Prediction& second = predictions[slower];
      if (first.group != second.group) continue;
      if (may_be_alike(first, second)) {
        if (faster >= slower || !are_known(first, second)) continue;
        ++accuracy.alike;
        accuracy.noise_ppm =
            std::max({accuracy.noise_ppm, longer_ppm(first, second), longer_ppm(second, first)});
        continue;
      }
      if (!differ(first, second)) continue;
      ++accuracy.pairs;
      if (first.predicted >= second.predicted) accuracy.misranked.push_back({faster, slower});
    }
  }
  return accuracy;
}

}  // namespace stagger::cli
