#pragma once

#include "core/timing.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace stagger::workbench {

/// A run and what was predicted of it, in ns.
struct Prediction {
  std::string group;  ///< runs of one group are ranked among each other
  std::string schedule;
  Ticks measured = 1;  ///< above 0
  Ticks predicted = 0;
  std::uint64_t table = 0;        ///< equal for runs that no model tells apart; 0: unknown
  std::int64_t dq_in_flight = 0;  ///< bytes of dQ tiles at most, as predicted
  std::int64_t l2 = 0;            ///< bytes that stay in L2; 0: nothing is known of a memory

  /// predicted / measured - 1.
  [[nodiscard]] double error() const {
    return static_cast<double>(predicted) / static_cast<double>(measured) - 1;
  }
};

/// Two schedules of a group of which the measured ranking is not the predicted one: indices.
struct Misranked {
  std::size_t faster = 0;  ///< as measured
  std::size_t slower = 0;
};

/// How far some of the predictions are off, in millionths of what was measured.
struct Errors {
  std::int64_t runs = 0;        ///< 0: there are none, nor errors
  std::int64_t mean_ppm = 0;    ///< below 0: predicted too fast
  std::int64_t median_ppm = 0;  ///< of the absolute values
  std::int64_t worst_ppm = 0;

  friend bool operator==(const Errors&, const Errors&) = default;
};

/// How good predictions are.
struct Accuracy {
  std::int64_t median_ppm = 0;  ///< of the errors' absolute values, in millionths
  std::int64_t worst_ppm = 0;
  std::size_t worst = 0;  ///< index
  Errors in_l2;           ///< where all dQ tiles in flight stay in L2
  Errors beyond_l2;       ///< where they do not
  /// Pairs of a group that differ by more than 3 %, as measured, and have other tables; where one
  /// of the two is unknown, other schedules.
  std::int64_t pairs = 0;
  std::vector<Misranked> misranked;  ///< those that are not predicted to be in that order
  std::int64_t alike = 0;            ///< pairs of a group of one known table
  std::int64_t noise_ppm = 0;        ///< what the slower one of those took longer, at most
  std::int64_t noise_median_ppm = 0;
};

/// Requires a prediction at least. O(n^2) within a group.
[[nodiscard]] Accuracy accuracy_of(const std::vector<Prediction>& predictions);

}  // namespace stagger::workbench
