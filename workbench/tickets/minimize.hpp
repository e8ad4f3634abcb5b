#pragma once

#include "workbench/tickets/tickets.hpp"

namespace stagger::tickets {

/// A part of tickets that hang which hangs too and, as far as the search comes, of which no part
/// does: programs, semaphores and steps are left out, each together with the additions that others
/// count on (whoever waits for a higher value waits for so much less). The residency goes down with
/// the programs where it is what makes them hang. Programs that are empty then are left out.
/// Requires tickets that hang (play.hpp). Bounded work.
[[nodiscard]] Tickets minimize(const Tickets& tickets);

}  // namespace stagger::tickets
