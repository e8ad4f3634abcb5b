#pragma once

#include "core/problem.hpp"

#include <vector>

namespace stagger::schedules {

/// What a schedule makes of a tile grid, once for each that differs and at hand for every head.
template <class T>
class ByGrid {
 public:
  template <class Make>
  ByGrid(const Problem& problem, Make make) : grids_(problem.grids) {
    made_.reserve(grids_.distinct().size());
    for (const TileGrid& grid : grids_.distinct())
      made_.push_back(make(grid));
  }

  [[nodiscard]] const T& of(Head head) const { return made_[at(grids_.place_of(head))]; }

 private:
  const HeadGrids& grids_;
  std::vector<T> made_;  ///< by distinct grid
};

}  // namespace stagger::schedules
