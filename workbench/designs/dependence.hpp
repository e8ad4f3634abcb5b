#pragma once

#include "schedules/schedule.hpp"

#include <array>
#include <cstdint>
#include <vector>

namespace stagger::designs {

/// What moves the orders in which a schedule adds, beside the mask and the tiles.
struct Dependence {
  bool sms = false;
  bool heads = false;
  bool timing = false;

  /// As words of a plan's bits.
  void add_to(std::vector<const char*>& bits) const;
};

/// How many SMs or KV heads orders are asked for in the place of so many.
[[nodiscard]] std::array<std::int64_t, 5> other_counts(std::int64_t count);

/// Finds out by building: the tables of fewer and more SMs and heads are held against the
/// problem's, for the heads that both have. A schedule that searches depends on all. Of a problem
/// of many tiles the same mask in larger tiles answers. O(tasks) a table, ten of them.
[[nodiscard]] Dependence dependence_of(const schedules::Selection& selection,
                                       const Problem& problem);

}  // namespace stagger::designs
