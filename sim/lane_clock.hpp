#pragma once

#include "core/table.hpp"
#include "core/timing.hpp"

#include <algorithm>

namespace stagger::sim {

/// The ticks from `start` on and before `end`; both -1 for what never began.
struct Span {
  Ticks start = -1;
  Ticks end = -1;

  [[nodiscard]] bool empty() const { return start == end; }
  friend bool operator==(const Span&, const Span&) = default;
};

/// How far the SM of a lane has come.
struct LaneClock {
  Ticks free = 0;         ///< when the next launch or compute phase may start
  Ticks handed = 0;       ///< when the slot at hand is ready to reduce
  Ticks writer_free = 0;  ///< the last reduction's end; 0 before the first

  /// The end of everything so far, between two slots.
  [[nodiscard]] Ticks end() const { return std::max(free, writer_free); }
};

/// The timing rule of a lane, slot by slot. Two things are not its own: when the lane starts, and
/// when a slot's turn to reduce comes.
///
///   chain    reduce k starts at max(its compute's end, its turn); compute k+1 when reduce k ends
///   overlap  task k is handed over at max(its compute's end, end of reduce k-1); compute k+1
///            starts then; reduce k starts at max(hand-over, its turn)
/// A chain's end frees the SM at the last reduction's end plus the epilogue; in the overlap model
/// with static dispatch at the last hand-over plus the epilogue, while the writer drains.
/// Refers to the table and the timing that it was made of.
class LaneRule {
 public:
  LaneRule(const Table& table, const Timing& timing)
      : problem_(&table.problem),
        timing_(&timing),
        overlaps_(timing.model == Model::overlap),
        drains_(overlaps_ && table.dispatch == Dispatch::static_) {}

  /// The launch before a slot's compute phase: empty unless the slot begins a chain.
  [[nodiscard]] Span launch(bool begins_chain, const LaneClock& clock) const {
    return {.start = clock.free, .end = clock.free + (begins_chain ? timing_->launch : 0)};
  }

  /// Takes the SM to the hand-over of a slot whose launch ends at `launched`. Returns its compute
  /// phase.
  Span compute(const Task& task, Ticks launched, LaneClock& clock) const {
    const Span computing{.start = launched, .end = launched + timing_->compute_of(*problem_, task)};
    clock.handed = overlaps_ ? std::max(computing.end, clock.writer_free) : computing.end;
    return computing;
  }

  /// Takes the SM past a slot whose reduction starts at `start`. Returns the epilogue after it:
  /// empty unless the slot ends a chain.
  Span reduce(Ticks start, bool ends_chain, LaneClock& clock) const {
    clock.writer_free = start + timing_->reduce;
    const bool frees_at_hand_over = ends_chain ? drains_ : overlaps_;
    const Ticks freed = frees_at_hand_over ? clock.handed : clock.writer_free;
    clock.free = freed + (ends_chain ? timing_->epilogue : 0);
    return {.start = freed, .end = clock.free};
  }

  /// Whether a slot's reduction alone says when the SM is free after it, whatever came before.
  [[nodiscard]] bool frees_at_reduction() const { return !overlaps_; }

 private:
  const Problem* problem_;
  const Timing* timing_;
  bool overlaps_;
  bool drains_;  ///< the SM goes on after a chain while its writer drains
};

}  // namespace stagger::sim
