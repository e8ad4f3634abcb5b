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
  explicit RankPlaces(const Problem& problem) : tasks_(problem.tasks()) {
    first_.reserve(problem.grid.q_tiles());
    for (QTile q{0}; q.value < problem.grid.q_tiles(); ++q) {
      first_.push_back(head_tasks_);
      head_tasks_ += problem.grid.contributions(q);
    }
  }

  /// Requires 0 <= rank < contributions of the task's Q tile.
  [[nodiscard]] std::size_t of(const Task& task, std::int32_t rank) const {
    return at(task.head.value * head_tasks_ + first_[task.q] + rank);
  }
  [[nodiscard]] std::size_t size() const { return at(tasks_); }

 private:
  std::int64_t tasks_;
  std::int64_t head_tasks_ = 0;
  IndexVector<QTile, std::int64_t> first_;  ///< contributions to the Q tiles before
};

}  // namespace stagger
