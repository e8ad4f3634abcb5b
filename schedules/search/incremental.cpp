#include "schedules/search/incremental.hpp"

#include "core/error.hpp"
#include "schedules/search/evaluate.hpp"

#include <algorithm>
#include <functional>
#include <optional>
#include <queue>
#include <utility>

namespace stagger::search {

IncrementalPlay::IncrementalPlay(Table& table, const Timing& timing)
    : table_(table),
      timing_(timing),
      overlap_(timing.model == Model::overlap),
      weightless_((timing.release == Release::delayed ? timing.reduce / 2
                   : overlap_                         ? timing.reduce
                                                      : timing.shortest_compute() + timing.reduce) +
                      timing.latency ==
                  0),
      places_(table.problem),
      lane_first_(table.slots.size(), false),
      slot_of_(table.slots.size()),
      times_(table.slots.size()) {
  for (std::size_t lane = 0; lane + 1 < table.lane_begin.size(); ++lane) {
    const auto begin = static_cast<std::size_t>(table.lane_begin[lane]);
    if (begin < static_cast<std::size_t>(table.lane_begin[lane + 1])) lane_first_[begin] = true;
  }
  for (std::size_t slot = 0; slot < table.slots.size(); ++slot) {
    slot_of_[places_.of(table.slots[slot].task, table.slots[slot].rank)] = slot;
  }
  const auto resident = static_cast<std::size_t>(resident_lanes(table.problem, timing.residency));
  STAGGER_EXPECTS(table.lane_begin.size() <= resident + 1 ||
                  table.lane_begin[resident] == table.lane_begin.back());
  const std::optional<Starts> starts = starts_of(table, timing);
  STAGGER_EXPECTS(starts.has_value());
  for (std::size_t slot = 0; slot < times_.size(); ++slot)
    times_[slot].start = starts->reduce[slot];
  for (std::size_t slot = 0; slot < times_.size(); ++slot)
    times_[slot].handed = times_of(slot).handed;
  makespan_ = end_of_lanes();
}

bool IncrementalPlay::begins(std::size_t slot) const {
  return lane_first_[slot] ||
         !table_.problem.same_chain(table_.slots[slot - 1].task, table_.slots[slot].task);
}
bool IncrementalPlay::ends(std::size_t slot) const {
  return slot + 1 == table_.slots.size() || begins(slot + 1);
}

/// When the next task of the lane, or its launch, can begin.
Ticks IncrementalPlay::free_after(std::size_t slot) const {
  const Times& times = times_[slot];
  return (overlap_ ? times.handed : times.start + timing_.reduce) +
         (ends(slot) ? timing_.epilogue : 0);
}

/// When the next rank may start.
Ticks IncrementalPlay::turn_after(std::size_t slot) const {
  const bool delayed = timing_.release == Release::delayed && !ends(slot);
  const Ticks released =
      delayed ? times_[slot + 1].start + timing_.reduce / 2 : times_[slot].start + timing_.reduce;
  return released + timing_.latency;
}

IncrementalPlay::Times IncrementalPlay::times_of(std::size_t slot) const {
  const Slot& played = table_.slots[slot];
  const bool first = first_of_lane(slot);
  Times times;
  times.handed = (first ? 0 : free_after(slot - 1)) + (begins(slot) ? timing_.launch : 0) +
                 timing_.compute_of(table_.problem, played.task);
  if (overlap_ && !first) {
    times.handed = std::max(times.handed, times_[slot - 1].start + timing_.reduce);
  }
  times.start = times.handed;
  if (played.rank > 0) {
    const std::size_t before = slot_of_[places_.of(played.task, played.rank - 1)];
    times.start = std::max(times.start, turn_after(before));
  }
  return times;
}

Ticks IncrementalPlay::end_of_lanes() const {
  Ticks end = 0;
  for (std::size_t lane = 0; lane + 1 < table_.lane_begin.size(); ++lane) {
    if (table_.lane_begin[lane] == table_.lane_begin[lane + 1]) continue;
    const auto last = static_cast<std::size_t>(table_.lane_begin[lane + 1]) - 1;
    end = std::max({end, free_after(last), times_[last].start + timing_.reduce});
  }
  return end;
}

std::ptrdiff_t IncrementalPlay::next_in_accumulation(std::size_t slot) const {
  const Slot& played = table_.slots[slot];
  if (played.rank + 1 == table_.problem.contributions(played.task)) return -1;
  return static_cast<std::ptrdiff_t>(slot_of_[places_.of(played.task, played.rank + 1)]);
}

/// A slot and the next of its accumulation have to be played again.
void IncrementalPlay::touch(std::size_t slot) {
  touched_.push_back(slot);
  const std::ptrdiff_t next = next_in_accumulation(slot);
  if (next >= 0) touched_.push_back(static_cast<std::size_t>(next));
}

void IncrementalPlay::swap_q(std::size_t first, std::size_t second) {
  std::swap(table_.slots[first], table_.slots[second]);
  for (const std::size_t slot : {first, second}) {
    slot_of_[places_.of(table_.slots[slot].task, table_.slots[slot].rank)] = slot;
    touch(slot);
  }
}

void IncrementalPlay::swap_ranks(std::size_t slot, std::size_t other) {
  std::swap(table_.slots[slot].rank, table_.slots[other].rank);
  for (const std::size_t swapped : {slot, other}) {
    slot_of_[places_.of(table_.slots[swapped].task, table_.slots[swapped].rank)] = swapped;
  }
  touch(slot);
  touch(other);
}

bool IncrementalPlay::exchange_q(std::size_t first, std::size_t second, Ticks limit) {
  swap_q(first, second);
  if (play_on(limit)) return true;
  undo();
  swap_q(first, second);
  touched_.clear();
  return false;
}

bool IncrementalPlay::exchange_ranks(std::size_t slot, Ticks limit) {
  const Slot& played = table_.slots[slot];
  const std::size_t other = slot_of_[places_.of(played.task, played.rank - 1)];
  swap_ranks(slot, other);
  if (play_on(limit)) return true;
  undo();
  swap_ranks(slot, other);
  touched_.clear();
  return false;
}

/// Plays the touched slots and those after them until no time moves. A cycle of waits would push
/// times on forever, and ends like any other change for the worse: beyond the limit.
bool IncrementalPlay::play_on(Ticks limit) {
  using Due = std::pair<Ticks, std::size_t>;  // about when, which slot
  std::priority_queue<Due, std::vector<Due>, std::greater<>> due;
  for (const std::size_t slot : touched_)
    due.emplace(times_[slot].start, slot);
  touched_.clear();
  changes_.clear();
  while (!due.empty()) {
    const std::size_t slot = due.top().second;
    while (!due.empty() && due.top().second == slot)
      due.pop();
    ++played_;
    const Times times = times_of(slot);
    if (times == times_[slot]) continue;
    if (times.start + timing_.reduce > limit) return false;
    changes_.push_back({slot, times_[slot]});
    times_[slot] = times;
    if (slot + 1 < table_.slots.size() && !first_of_lane(slot + 1)) {
      due.emplace(times_[slot + 1].start, slot + 1);
    }
    // With a delayed release the start of a task lets go the lock of the one before.
    const bool releases = timing_.release == Release::delayed && !begins(slot);
    for (const std::size_t released : {slot, releases ? slot - 1 : slot}) {
      const std::ptrdiff_t next = next_in_accumulation(released);
      if (next < 0) continue;
      const auto after = static_cast<std::size_t>(next);
      due.emplace(times_[after].start, after);
    }
  }
  const Ticks end = end_of_lanes();
  if (end > limit || (weightless_ && !makespan_of(table_, timing_))) return false;
  makespan_ = end;
  return true;
}

void IncrementalPlay::undo() {
  for (auto change = changes_.rbegin(); change != changes_.rend(); ++change)
    times_[change->slot] = change->before;
  changes_.clear();
}

}  // namespace stagger::search
