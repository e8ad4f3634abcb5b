#include "workbench/accuracy.hpp"

#include "core/error.hpp"
#include "core/median.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

namespace stagger::workbench {
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

/// What the slower of two took longer.
std::int64_t apart_ppm(const Prediction& left, const Prediction& right) {
  const auto [faster, slower] = std::minmax(left.measured, right.measured);
  return std::llround(1e6 * (static_cast<double>(slower) / static_cast<double>(faster) - 1));
}

/// The errors of those predictions that know a memory and that `counts` takes.
template <class Counts>
Errors errors_of(const std::vector<Prediction>& predictions, Counts counts) {
  double sum = 0;
  std::vector<std::int64_t> absolute;
  for (const Prediction& prediction : predictions) {
    if (prediction.l2 == 0 || !counts(prediction)) continue;
    sum += prediction.error();
    absolute.push_back(std::llround(1e6 * std::abs(prediction.error())));
  }
  if (absolute.empty()) return {};
  const std::int64_t runs = std::ssize(absolute);
  const std::int64_t worst = *std::ranges::max_element(absolute);
  return {.runs = runs,
          .mean_ppm = std::llround(1e6 * sum / static_cast<double>(runs)),
          .median_ppm = median(std::move(absolute)),
          .worst_ppm = worst};
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
  accuracy.median_ppm = median(std::move(errors));
  const auto is_beyond = [](const Prediction& each) { return each.dq_in_flight > each.l2; };
  accuracy.in_l2 = errors_of(predictions, std::not_fn(is_beyond));
  accuracy.beyond_l2 = errors_of(predictions, is_beyond);
  std::vector<std::int64_t> apart;
  for (std::size_t faster = 0; faster < predictions.size(); ++faster) {
    for (std::size_t slower = 0; slower < predictions.size(); ++slower) {
      const Prediction& first = predictions[faster];
      const Prediction& second = predictions[slower];
      if (first.group != second.group) continue;
      if (may_be_alike(first, second)) {
        if (faster < slower && are_known(first, second)) apart.push_back(apart_ppm(first, second));
        continue;
      }
      if (!differ(first, second)) continue;
      ++accuracy.pairs;
      if (first.predicted >= second.predicted) accuracy.misranked.push_back({faster, slower});
    }
  }
  accuracy.alike = std::ssize(apart);
  if (!apart.empty()) accuracy.noise_ppm = *std::ranges::max_element(apart);
  accuracy.noise_median_ppm = median(std::move(apart));
  return accuracy;
}

}  // namespace stagger::workbench
