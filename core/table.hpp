#pragma once

#include "core/index.hpp"
#include "core/problem.hpp"

#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace stagger {

/// Who starts a lane, and where.
enum class Dispatch {
  static_,   ///< lane i belongs to SM i (persistent kernels)
  in_order,  ///< lanes are CTA programs in launch order; a free SM takes the next one
};

inline constexpr const char* kDispatchNames[] = {"static", "in-order"};
[[nodiscard]] constexpr const char* dispatch_name(Dispatch dispatch) {
  return kDispatchNames[static_cast<int>(dispatch)];
}

/// A task at a place in a lane.
struct Slot {
  Task task;
  /// Reductions into (head, q) that come before this one: the lock value its semaphore must show.
  std::int32_t rank = 0;

  friend bool operator==(const Slot&, const Slot&) = default;
};

/// The assignment table: who computes what, in which order, and each reduction's rank. The one
/// artefact handed around; it may come from a schedule or from a file, and may be wrong
/// (dag/verify.hpp finds out how).
///
/// Lanes are stored one after the other: lane i is slots[lane_begin[i] .. lane_begin[i + 1]).
struct Table {
  std::string name;
  Problem problem;
  Dispatch dispatch = Dispatch::static_;
  IndexVector<std::int64_t, Slot> slots = {};
  IndexVector<std::int64_t, std::int64_t> lane_begin = {0};  ///< ascending; lanes + 1 entries
  /// Where dK and dV are combined in order, each chain's rank among its KV tile's parts, by
  /// Problem::chain_place; -1 where a chain has none. Empty: Problem::place_among_parts.
  IndexVector<std::int64_t, std::int32_t> dkv_ranks = {};

  [[nodiscard]] std::int32_t lanes() const {
    return static_cast<std::int32_t>(lane_begin.size()) - 1;
  }
  /// The lane's first slot, and the one behind its last.
  [[nodiscard]] std::int64_t begin_of(Lane lane) const { return lane_begin[lane.value]; }
  [[nodiscard]] std::int64_t end_of(Lane lane) const { return lane_begin[lane.value + 1]; }
  [[nodiscard]] std::span<const Slot> lane(Lane lane) const {
    return std::span(slots).subspan(at(begin_of(lane)), at(end_of(lane) - begin_of(lane)));
  }
  /// Whether a chain begins at a slot of the lane: its first slot, or another chain's than before.
  [[nodiscard]] bool begins_chain(Lane lane, std::int64_t slot) const {
    return slot == begin_of(lane) || !problem.same_chain(slots[slot - 1].task, slots[slot].task);
  }
  /// Whether a chain ends at a slot of the lane: its last slot, or another chain's than behind it.
  [[nodiscard]] bool ends_chain(Lane lane, std::int64_t slot) const {
    return slot + 1 == end_of(lane) || !problem.same_chain(slots[slot].task, slots[slot + 1].task);
  }
  /// A chain's rank in the accumulation of its KV tile's dK and dV.
  [[nodiscard]] std::int32_t dkv_rank(Part part, KvTile kv) const {
    return dkv_ranks.empty() ? problem.place_among_parts(part, kv)
                             : dkv_ranks[problem.chain_place(part, kv)];
  }
  [[nodiscard]] std::int32_t dkv_rank(const Task& task) const {
    return dkv_rank(problem.part_of(task.head), task.kv);
  }
  /// Ends the lane under construction: every slot added since the last call belongs to it.
  void end_lane() { lane_begin.push_back(std::ssize(slots)); }
  /// Takes the lanes and ranks of another table of the same problem in place of its own.
  void take_lanes(Table&& from) {
    slots = std::move(from.slots);
    lane_begin = std::move(from.lane_begin);
    dkv_ranks = std::move(from.dkv_ranks);
  }
};

/// SMs a lane can run on: the problem's, or fewer if the device holds fewer.
[[nodiscard]] inline std::int32_t resident_lanes(const Problem& problem, std::int32_t residency) {
  return residency == 0 || residency > problem.sms ? problem.sms : residency;
}

/// The problem on the SMs that are really there: what a search for its best table works on, so that
/// all parts of the search agree on how many SMs there are.
[[nodiscard]] Problem on_resident_sms(Problem problem, std::int32_t residency);

/// Returns the table without the slots whose tasks are no tiles of the problem, live or empty: what
/// of a broken table touches a lock, and so can be played.
[[nodiscard]] Table existing_tasks(const Table& table);

/// Replaces every rank by the task's KV index: the absolute lock values of kernels that deadlock
/// on sparse masks.
void use_kv_index_ranks(Table& table);

}  // namespace stagger
