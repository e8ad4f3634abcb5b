#pragma once

#include "tests/support/random.hpp"
#include "workbench/tickets/tickets.hpp"

namespace stagger::test {

/// What can become of tickets over all orders of events.
struct EveryEnd {
  bool can_hang = false;
  bool can_end = false;
  bool one_order = true;  ///< whether every dQ tile is added up in one order, whatever happens
};

/// Tries every order in which the programs' steps can happen, step by step, as the README states
/// the rules. For a handful of steps.
[[nodiscard]] EveryEnd every_end(const tickets::Tickets& tickets);

/// Tickets of a few programs whose values are ranks of a random order, spoiled here and there.
[[nodiscard]] tickets::Tickets nearly_right_tickets(Random& random);

}  // namespace stagger::test
