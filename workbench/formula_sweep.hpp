#pragma once

#include "core/timing.hpp"
#include "schedules/schedule.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace stagger::workbench {

/// Whole numbers from `first` to `last`, both of them.
struct SweptRange {
  std::int64_t first = 1;
  std::int64_t last = 1;
  [[nodiscard]] std::int64_t size() const { return last - first + 1; }
};

/// The cases that closed forms are checked on: both of the paper's masks at every n_kv and n_q, one
/// SM for each KV tile.
struct SweepRequest {
  SweptRange n;           ///< tiles, of KV and of Q, from 1 on
  SweptRange heads;       ///< from 1 on; of K and V, where groups share them
  SweptRange group = {};  ///< heads that share K and V, all of a chain, from 1 on
  SweptRange compute;     ///< ticks, from 0 on
  SweptRange reduce;      ///< ticks, from 0 on
  std::function<void(double fraction)> progress = {};
  std::function<bool()> stop = {};  ///< asked before each case; once it is true no more are checked
};

/// One point of the ranges.
struct SweptCase {
  std::int64_t n_kv = 0;
  std::int64_t n_q = 0;
  std::int64_t heads = 0;  ///< of K and V
  std::int64_t group = 1;
  Ticks compute = 0;
  Ticks reduce = 0;
};

/// What came of a formula in cases inside or outside its domain.
struct Tally {
  struct Failure {
    SweptCase at;
    Ticks twice_formula = 0;
    Ticks makespan = 0;
  };
  std::int64_t checked = 0;
  std::int64_t holds = 0;
  std::optional<Failure> first_failure;
};

struct SweptFormula {
  const schedules::Schedule* schedule = nullptr;
  const schedules::Formula* formula = nullptr;
  Tally inside;
  Tally outside;

  /// Whether it is exact where it claims to be.
  [[nodiscard]] bool holds() const { return inside.holds == inside.checked; }
  /// Whether any case was.
  [[nodiscard]] bool checked() const { return inside.checked + outside.checked > 0; }
};

/// Compares every closed form of every schedule with the makespan that the simulator and the
/// graph's longest path agree on. Throws Error{limit} above ten million cases.
[[nodiscard]] std::vector<SweptFormula> sweep_formulas(const SweepRequest& request);

}  // namespace stagger::workbench
