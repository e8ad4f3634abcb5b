#pragma once

#include "core/problem.hpp"
#include "core/table.hpp"
#include "core/timing.hpp"

#include <cstdint>
#include <optional>

namespace stagger {

/// The problem whose tasks are the steps of another's: every Q tile is so many, as live and as
/// partial as it was.
[[nodiscard]] Problem in_steps(const Problem& problem, std::int32_t steps);

/// The table of the steps of another's tasks: a task's one after the other in its place, Q tiles
/// upwards, with its rank.
[[nodiscard]] Table in_steps(const Table& table, std::int32_t steps);

/// The timing of tasks that are the steps of those of another: each takes its part of their phases
/// and touches its part of their Q tiles and dQ, rounded up.
[[nodiscard]] Timing of_steps(const Timing& timing);

/// A table and its timing as they are played: step by step, or as they are where a task is one.
/// Refers to both.
class InSteps {
 public:
  InSteps(const Table& table, const Timing& timing);
  InSteps(const InSteps&) = delete;
  InSteps& operator=(const InSteps&) = delete;

  [[nodiscard]] const Table& table() const { return steps_ ? *steps_ : table_; }
  [[nodiscard]] const Timing& timing() const { return of_steps_ ? *of_steps_ : timing_; }

 private:
  const Table& table_;
  const Timing& timing_;
  std::optional<Table> steps_;
  std::optional<Timing> of_steps_;
};

}  // namespace stagger
