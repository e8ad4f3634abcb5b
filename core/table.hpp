#pragma once

#include "core/problem.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace stagger {

/// Who starts a lane, and where.
enum class Dispatch {
  static_,   ///< lane i belongs to SM i (persistent kernels)
  in_order,  ///< lanes are CTA programs in launch order; a free SM takes the next one
};

/// "static" or "in-order".
[[nodiscard]] constexpr const char* dispatch_name(Dispatch dispatch) {
  return dispatch == Dispatch::static_ ? "static" : "in-order";
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
  std::vector<Slot> slots;
  std::vector<std::int64_t> lane_begin = {0};  ///< ascending; lanes + 1 entries

  [[nodiscard]] std::int32_t lanes() const {
    return static_cast<std::int32_t>(lane_begin.size()) - 1;
  }
  [[nodiscard]] std::span<const Slot> lane(Lane lane) const {
    const auto begin = static_cast<std::size_t>(lane_begin[static_cast<std::size_t>(lane.value)]);
    const auto end = static_cast<std::size_t>(lane_begin[static_cast<std::size_t>(lane.value) + 1]);
    return std::span(slots).subspan(begin, end - begin);
  }
  /// Ends the lane under construction: every slot added since the last call belongs to it.
  void end_lane() { lane_begin.push_back(static_cast<std::int64_t>(slots.size())); }
};

/// Whether `slot` begins a chain: the lane's first slot, or another KV tile than the one before.
[[nodiscard]] inline bool begins_chain(const Slot* lane_begin, const Slot* slot) {
  return slot == lane_begin || slot->task.head != slot[-1].task.head ||
         slot->task.kv != slot[-1].task.kv;
}

/// SMs a lane can run on: the problem's, or fewer if the device holds fewer.
[[nodiscard]] inline std::int32_t resident_lanes(const Problem& problem, std::int32_t residency) {
  return residency == 0 || residency > problem.sms ? problem.sms : residency;
}

/// The problem on the SMs that are really there: what a search for its best table works on, so that
/// all parts of the search agree on how many SMs there are.
[[nodiscard]] Problem on_resident_sms(Problem problem, std::int32_t residency);

/// Replaces every rank by the task's KV index: the absolute lock values of kernels that deadlock
/// on sparse masks.
void use_kv_index_ranks(Table& table);

}  // namespace stagger
