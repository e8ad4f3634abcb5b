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

  /// Whether anything was reduced: no reduction ends at 0.
  [[nodiscard]] bool has_reduced() const { return writer_free > 0; }
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
/// with static dispatch at the last hand-over plus the epilogue, while the writer drains. With
/// dispatch in order it does so too where `next_lane` is known; the SM launches its next lane at
/// the later of that and the last reduction's end plus `next_lane`, else at a lane's end. Where
/// parts are combined in order, a chain is reduced into dK and dV at max(its last reduction's end,
/// its turn); that frees the SM, and the epilogue comes after it. If it is a writer's, the SM is
/// free as without it, but no later reduction starts before its end. Refers to the grids of the
/// table that it was made of. A copy is cheap: in a loop that follows the rule, what it says then
/// stays in registers.
class LaneRule {
 public:
  LaneRule(const Table& table, const Timing& timing)
      : grids_(&table.problem.grids),
        compute_(timing.compute),
        compute_partial_(timing.compute_of(TileKind::partial)),
        reduce_(timing.reduce),
        launch_(timing.launch),
        epilogue_(timing.epilogue),
        reduce_kv_(timing.reduce_kv),
        uniform_(timing.uniform()),
        overlaps_(timing.model == Model::overlap),
        combines_(table.problem.combine == Combine::ordered),
        stays_(combines_ && !timing.reduce_kv_async),
        drains_(timing.drains(table.dispatch)),
        lane_gap_(timing.lane_gap(table.dispatch)) {}

  /// Whether chains are reduced into dK and dV.
  [[nodiscard]] bool combines() const { return combines_; }
  /// Whether the SM stays with a chain until it is reduced into dK and dV.
  [[nodiscard]] bool waits_to_combine() const { return stays_; }

  /// The launch before a slot's compute phase: empty unless the slot begins a chain.
  [[nodiscard]] Span launch(bool begins_chain, const LaneClock& clock) const {
    return {.start = clock.free, .end = clock.free + (begins_chain ? launch_ : 0)};
  }

  /// A task's compute phase, where nothing slows it.
  [[nodiscard]] Ticks compute_of(const Task& task) const {
    const bool partial =
        !uniform_ && grids_->of(task.head).kind(task.kv, task.q) == TileKind::partial;
    return partial ? compute_partial_ : compute_;
  }

  /// Takes the SM to the hand-over of a slot whose launch ends at `launched` and whose compute
  /// phase takes so much longer. Returns that phase.
  Span compute(const Task& task, Ticks launched, Ticks longer, LaneClock& clock) const {
    const Span computing{.start = launched, .end = launched + compute_of(task) + longer};
    clock.handed = std::max(computing.end, clock.writer_free);
    return computing;
  }

  /// Takes the SM past a slot whose reduction starts at `start`. Returns the epilogue after it:
  /// empty unless the slot ends a chain that the SM does not stay with.
  Span reduce(Ticks start, bool ends_chain, LaneClock& clock) const {
    clock.writer_free = start + reduce_;
    return free(frees_at_hand_over(ends_chain) ? clock.handed : clock.writer_free, ends_chain,
                clock);
  }

  /// Whether the SM goes on at a slot's hand-over, not at its reduction's end.
  [[nodiscard]] bool frees_at_hand_over(bool ends_chain) const {
    return ends_chain ? drains_ && !stays_ : overlaps_;
  }

  /// Takes the SM, but not its writer, past a slot of which it is freed at `freed`. Returns the
  /// epilogue, as reduce() does.
  Span free(Ticks freed, bool ends_chain, LaneClock& clock) const {
    clock.free = freed + (ends_chain && !stays_ ? epilogue_ : 0);
    return {.start = freed, .end = clock.free};
  }

  /// Takes the SM past a chain that is reduced into dK and dV from `start` on; `epilogue` is what
  /// reduce() said. Returns the epilogue.
  Span combine(Ticks start, Span epilogue, LaneClock& clock) const {
    clock.writer_free = start + reduce_kv_;
    if (!stays_) return epilogue;
    clock.free = clock.writer_free + epilogue_;
    return {.start = clock.writer_free, .end = clock.free};
  }

  /// When the SM of a lane that has ended can launch another.
  [[nodiscard]] Ticks next_lane(const LaneClock& clock) const {
    const Ticks gap = clock.has_reduced() ? lane_gap_ : 0;  // an empty lane takes no time
    return std::max(clock.end(), clock.writer_free + gap);
  }

  /// Whether a slot's reduction alone says when the SM is free after it, whatever came before.
  [[nodiscard]] bool frees_at_reduction() const { return !overlaps_; }

 private:
  const HeadGrids* grids_;
  Ticks compute_;
  Ticks compute_partial_;
  Ticks reduce_;
  Ticks launch_;
  Ticks epilogue_;
  Ticks reduce_kv_;
  bool uniform_;
  bool overlaps_;
  bool combines_;
  bool stays_;      ///< the SM stays with a chain until it is reduced into dK and dV
  bool drains_;     ///< the SM goes on after a chain while its writer drains
  Ticks lane_gap_;  ///< from the last reduction to the next lane
};

}  // namespace stagger::sim
