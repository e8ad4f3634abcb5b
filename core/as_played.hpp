#pragma once

#include "core/problem.hpp"
#include "core/table.hpp"
#include "core/timing.hpp"

#include <optional>

namespace stagger {

// What a kernel makes of a table. It may take a task in steps (Timing::steps): what is played then
// is a table of the steps, each a task of a Q tile that is so much smaller. And it may compute a KV
// tile that the sequence ends within as a partial one (Timing::cut_partial).

/// The problem whose tasks are those that are played: every Q tile is as many as there are steps,
/// as live and as partial as it was.
[[nodiscard]] Problem as_played(const Problem& problem, const Timing& timing);

/// The table of what is played: the steps of a task one after the other in its place, Q tiles
/// upwards, with its rank.
[[nodiscard]] Table as_played(const Table& table, const Timing& timing);

/// The timing of what is played, each task one step: it takes its part of a task's phases and
/// touches its part of the task's Q tile and dQ, rounded up.
[[nodiscard]] Timing as_played(const Timing& timing);

/// A table and its timing as they are played, or as they are where that is the same. Refers to
/// both.
class AsPlayed {
 public:
  AsPlayed(const Table& table, const Timing& timing);
  AsPlayed(const AsPlayed&) = delete;
  AsPlayed& operator=(const AsPlayed&) = delete;

  [[nodiscard]] const Table& table() const { return played_ ? *played_ : table_; }
  [[nodiscard]] const Timing& timing() const { return of_played_ ? *of_played_ : timing_; }

 private:
  const Table& table_;
  const Timing& timing_;
  std::optional<Table> played_;
  std::optional<Timing> of_played_;
};

/// Whether what is played is the table itself.
[[nodiscard]] bool plays_itself(const Problem& problem, const Timing& timing);

}  // namespace stagger
