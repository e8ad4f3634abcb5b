#pragma once

#include "workbench/tickets/tickets.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace stagger::tickets {

/// The place of a step: the place-th of a program.
struct StepAt {
  Program program = {};
  std::int64_t place = 0;

  friend bool operator==(const StepAt&, const StepAt&) = default;
};

/// A step as it is in one or in both of two tickets.
struct StepChange {
  std::optional<Step> before = {};  ///< absent: it was added
  std::optional<Step> after = {};   ///< absent: it was removed
  StepAt from = {};
  StepAt to = {};
};

/// What two tickets do not have in common. Steps are the same if they are of one task and both
/// reduce or both do not; of several such, the first is the first, and so on.
struct Difference {
  std::optional<StepChange> first = {};  ///< at the first program and place that are not alike
  std::vector<StepChange> removed = {};
  std::vector<StepChange> added = {};
  /// In another program, or in another order: all but a longest common order of each program.
  std::vector<StepChange> moved = {};
  std::vector<StepChange> retimed = {};  ///< another value waited for or added
  std::int64_t dq_orders = 0;            ///< dQ tiles whose partials come in another order
  std::int64_t dkv_orders = 0;           ///< chains, and sums of parts, in another order

  /// Whether the same steps are at the same places.
  [[nodiscard]] bool none() const { return !first; }
  /// Whether the same numbers leave the same bits, as far as the order of sums decides. Requires
  /// that both have one order (chains.hpp, SumOrder).
  [[nodiscard]] bool same_bits() const { return dq_orders == 0 && dkv_orders == 0; }
};

/// Compares step by step. Lists are in the order of the first tickets' steps, of what was added in
/// the second's. O(steps log steps).
[[nodiscard]] Difference difference(const Tickets& before, const Tickets& after);

}  // namespace stagger::tickets
