#pragma once

#include "core/as_played.hpp"
#include "core/error.hpp"
#include "sim/lane_clock.hpp"
#include "sim/simulate.hpp"

#include <cstdint>
#include <utility>

namespace stagger::sim {

/// A slot as it was played: on which SM, and when each of its phases ran. In a table that hangs, a
/// slot that waits for ever has a `wait` that ends at -1 and no `reduce`, or a `wait_kv` and no
/// `reduce_kv`.
struct PlayedSlot {
  std::int64_t index = 0;  ///< in Table::slots
  Lane lane = {};
  Sm sm = {};
  Slot slot = {};
  bool begins_chain = false;
  bool ends_chain = false;
  Span launch = {};  ///< empty unless the slot begins a chain
  Span compute = {};
  Span wait = {};  ///< from the hand-over to the reduction
  Span reduce = {};
  Span wait_kv = {};    ///< from there, or from the writer's last reduction, to the next
  Span reduce_kv = {};  ///< into dK and dV; empty unless the slot ends a chain that is combined
  Span epilogue = {};   ///< empty unless the slot ends a chain

  /// When the slot is ready to reduce. In the overlap model the SM goes on to its next slot then.
  [[nodiscard]] Ticks handed() const { return wait.start; }
  [[nodiscard]] bool reduced() const { return reduce.start >= 0; }
  /// Whether nothing of the slot waits for ever.
  [[nodiscard]] bool done() const { return reduced() && wait_kv.end >= wait_kv.start; }
};

/// A table as it was played: the one view of a simulation that timelines, bubbles and critical
/// paths read. Refers to what it is made of.
class Played {
 public:
  Played(const Table& table, const Timing& timing, const Simulation& simulation)
      : table_(&table), timing_(&timing), simulation_(&simulation), rule_(table, timing) {
    STAGGER_EXPECTS(plays_itself(table.problem, timing));
  }

  [[nodiscard]] const Table& table() const { return *table_; }
  [[nodiscard]] const Timing& timing() const { return *timing_; }
  [[nodiscard]] const Simulation& simulation() const { return *simulation_; }
  [[nodiscard]] const LaneRule& rule() const { return rule_; }

  /// SMs that are there.
  [[nodiscard]] std::int32_t sms() const {
    return resident_lanes(table_->problem, timing_->residency);
  }
  [[nodiscard]] const LaneRun& run(Lane lane) const { return simulation_->lanes[lane]; }

  /// Calls `use(slot)` for every slot that a lane has played, in their order. In a table that
  /// hangs, the last of them may be one that waits for ever; a lane that was never launched has
  /// none. O(1) a slot.
  template <class Use>
  void each_slot(Lane lane, Use use) const;

  /// Returns the last lane with slots that ran on each lane's SM before it; -1 if there is none, or
  /// if the lane was never launched. O(lanes).
  [[nodiscard]] IndexVector<Lane, Lane> lanes_before() const;

  /// Plays the slot of a lane at `index`, given how far the lane had come; takes the clock past it.
  [[nodiscard]] PlayedSlot play(Lane lane, std::int64_t index, LaneClock& clock) const;

 private:
  /// Fills in what follows from where a slot is and whether it begins a chain.
  void play(PlayedSlot& played, LaneClock& clock) const;
  void combine(PlayedSlot& played, LaneClock& clock) const;

  const Table* table_;
  const Timing* timing_;
  const Simulation* simulation_;
  LaneRule rule_;
};

template <class Use>
void Played::each_slot(Lane lane, Use use) const {
  if (run(lane).start < 0) return;
  const Played played = *this;  // what `use` writes cannot change a copy
  LaneClock clock{.free = run(lane).start};
  bool begins_chain = true;
  const std::int64_t end = table_->end_of(lane);
  for (std::int64_t index = table_->begin_of(lane); index < end; ++index) {
    PlayedSlot slot{.index = index, .lane = lane, .sm = run(lane).sm, .begins_chain = begins_chain};
    played.play(slot, clock);
    use(std::as_const(slot));
    if (!slot.done()) return;
    begins_chain = slot.ends_chain;
  }
}

inline PlayedSlot Played::play(Lane lane, std::int64_t index, LaneClock& clock) const {
  PlayedSlot played{.index = index, .lane = lane, .sm = run(lane).sm};
  played.begins_chain = table_->begins_chain(lane, index);
  play(played, clock);
  return played;
}

inline void Played::play(PlayedSlot& played, LaneClock& clock) const {
  played.slot = table_->slots[played.index];
  played.ends_chain = table_->ends_chain(played.lane, played.index);
  played.launch = rule_.launch(played.begins_chain, clock);
  const auto& starts = simulation_->compute_start;
  const Ticks computes = starts.empty() ? played.launch.end : starts[played.index];
  const auto& longer = simulation_->compute_longer;
  const Ticks more = longer.empty() ? 0 : longer[played.index];
  played.compute = rule_.compute(played.slot.task, computes, more, clock);
  const Ticks start = simulation_->reduce_start[played.index];
  played.wait = {.start = clock.handed, .end = start};
  if (start < 0) {
    played.reduce = played.wait_kv = played.reduce_kv = played.epilogue = {};
    return;
  }
  played.reduce = {.start = start, .end = start + timing_->reduce};
  played.epilogue = rule_.reduce(start, played.ends_chain, clock);
  played.wait_kv = played.reduce_kv = {};
  if (played.ends_chain && rule_.combines()) combine(played, clock);
}

inline void Played::combine(PlayedSlot& played, LaneClock& clock) const {
  const Ticks start = simulation_->reduce_kv_start[played.index];
  played.wait_kv = {.start = clock.writer_free, .end = start};
  if (start < 0) return;
  played.reduce_kv = {.start = start, .end = start + timing_->reduce_kv};
  played.epilogue = rule_.combine(start, played.epilogue, clock);
}

}  // namespace stagger::sim
