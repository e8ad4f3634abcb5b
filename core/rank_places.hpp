#pragma once

#include "core/problem.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace stagger {

/// Numbers every (head, q, rank) of a problem densely, 0 … tasks-1, ranks of a dQ tile next to each
/// other: the index of an array by rank.
class RankPlaces {
 public:
  explicit RankPlaces(const Problem& problem)
      : tasks_(problem.tasks()), q_tiles_(problem.q_tiles()) {
    for (const TileGrid& grid : problem.grids.distinct()) {
      std::int64_t tasks = 0;
      for (QTile q{0}; q.value < q_tiles_; ++q) {
        first_.push_back(tasks);
        tasks += grid.contributions(q);
      }
      head_tasks_ = tasks;
    }
    if (problem.grids.all_alike()) return;
    std::int64_t tasks = 0;
    for (Head head{0}; head.value < problem.heads; ++head) {
      heads_.push_back({tasks, problem.grids.place_of(head) * std::int64_t{q_tiles_}});
      tasks += problem.grid_of(head).live_tiles();
    }
  }

  /// Requires 0 <= rank < contributions of the task's Q tile.
  [[nodiscard]] std::size_t of(const Task& task, std::int32_t rank) const {
    if (heads_.empty()) return at(task.head.value * head_tasks_ + first_[task.q.value] + rank);
    const Of& head = heads_[task.head];
    return at(head.first + first_[head.grid + task.q.value] + rank);
  }
  [[nodiscard]] std::size_t size() const { return at(tasks_); }

 private:
  /// Where a head's tasks begin, and what there is of its grid.
  struct Of {
    std::int64_t first = 0;
    std::int64_t grid = 0;
  };

  std::int64_t tasks_;
  std::int32_t q_tiles_;
  std::int64_t head_tasks_ = 0;  ///< where all heads have one grid
  /// Contributions to the Q tiles before, of one head: by distinct grid, then Q tile.
  IndexVector<std::int64_t, std::int64_t> first_;
  IndexVector<Head, Of> heads_;  ///< empty where all heads have one grid
};

}  // namespace stagger
