#pragma once

#include "workbench/tickets/tickets.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace stagger::tickets {

/// Why a program is stuck, or was never launched.
struct Stuck {
  Program program = {};
  std::int64_t step = -1;      ///< that it is at; -1: it was not launched
  std::int64_t value = 0;      ///< what the step's semaphore shows
  std::int64_t for_step = -1;  ///< that must come before; -1: none can bring the value any more
  Program for_program = {};    ///< that has for_step, or the machine's place
};

/// What became of tickets, played without times.
struct Outcome {
  bool hangs = false;
  /// Programs that must be resident at once for all to end, launched in order; 0: no number is
  /// enough.
  std::int32_t residency_needed = 0;
  std::int32_t residency = 0;  ///< that there is
  std::int64_t stuck_steps = 0;
  /// A short cycle of waits, each for the next (the last for the first); empty if there is none.
  std::vector<Stuck> cycle = {};
  /// Waits for a value that never comes, or that has passed; at most 100.
  std::vector<Stuck> starved = {};
};

/// Plays tickets: a step waits until its semaphore shows exactly its value, reduces and adds. With
/// delayed release a reduction's addition comes when the next reduction of its chain begins. A
/// program is launched when one ends, from `resident()` on. Each program goes as far as it can
/// before another does; where steps race for a semaphore, other orders may end otherwise
/// (races.hpp). O(steps) expected time.
[[nodiscard]] Outcome play(const Tickets& tickets);

/// Plays the tickets with one step held back for as long as anything else can move. Returns what
/// its semaphore shows then: above the step's value, the step hangs in that order of events.
struct Held {
  std::int64_t value = 0;
  std::vector<bool> done = {};  ///< by step
};
[[nodiscard]] Held play_without(const Tickets& tickets, std::int64_t step);

/// `P1 (head 0, kv 1) is at q0@2, but semaphore 0 shows 1: P2's q0@1 must come first`.
[[nodiscard]] std::vector<std::string> describe(const Tickets& tickets,
                                                const std::vector<Stuck>& stuck);

}  // namespace stagger::tickets
