#pragma once

#include "workbench/tickets/tickets.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace stagger::tickets {

/// How the values that a semaphore's steps wait for can be no order.
enum class Fault {
  gap,    ///< no step brings the value that one waits for
  past,   ///< the semaphore is beyond the value before the step can see it
  twice,  ///< two steps that add wait for one value
};

/// The first place at which a semaphore's steps are no order, by the values they wait for.
struct Broken {
  Semaphore semaphore = {};
  Fault fault = Fault::gap;
  std::int64_t step = -1;   ///< that waits in vain; of two that wait for one value, the second
  std::int64_t other = -1;  ///< of two that wait for one value, the first
  std::int64_t shown = 0;   ///< what the semaphore shows when the steps before have added
};

/// The steps of each semaphore by the value that they wait for.
class Chains {
 public:
  /// O(steps log steps).
  explicit Chains(const Tickets& tickets);

  /// Steps that wait, by value, then by place.
  [[nodiscard]] std::span<const std::int64_t> waits(Semaphore semaphore) const {
    return part(2 * std::int64_t{semaphore.value} + 1);
  }
  /// Steps that add without waiting.
  [[nodiscard]] std::span<const std::int64_t> bumps(Semaphore semaphore) const {
    return part(2 * std::int64_t{semaphore.value});
  }
  /// Semaphores whose steps are no order, each with its first fault.
  [[nodiscard]] const std::vector<Broken>& broken() const { return broken_; }
  /// Semaphores at which the waits alone do not say which step is next: one adds without waiting,
  /// or waits without adding, while others are to come.
  [[nodiscard]] const std::vector<Semaphore>& contested() const { return contested_; }

 private:
  [[nodiscard]] std::span<const std::int64_t> part(std::int64_t index) const {
    return std::span(steps_).subspan(at(begin_[index]), at(begin_[index + 1] - begin_[index]));
  }
  void walk(const Tickets& tickets, Semaphore semaphore);

  IndexVector<std::int64_t, std::int64_t> steps_;
  IndexVector<std::int64_t, std::int64_t> begin_;  ///< bumps, then waits, of each semaphore
  std::vector<Broken> broken_;
  std::vector<Semaphore> contested_;
};

/// Two events whose order no wait fixes: whichever comes first, the outcome differs.
struct Race {
  std::int64_t step = -1;   ///< that hangs, or is added in another place, if the other is first
  std::int64_t other = -1;  ///< that may come before it
  bool hangs = false;       ///< else the sums of a dQ tile are in another order
};

struct Races {
  std::vector<Race> races = {};
  bool complete = true;  ///< whether all candidates could be tried
};

/// Finds races by holding back one step after another and playing the rest: what comes all the
/// same is not ordered after it. O(candidates * steps), bounded.
[[nodiscard]] Races find_races(const Tickets& tickets, const Chains& chains);

/// Whether every dQ tile is added up in one order, whatever comes first. With
/// delayed release two can see one value, and then have no order.
enum class SumOrder {
  fixed,
  any,      ///< some differ from run to run
  unknown,  ///< not all candidates could be tried
};
[[nodiscard]] SumOrder sum_order(const Tickets& tickets, const Chains& chains, const Races& races);

/// The tickets without what is broken: steps on those semaphores neither wait nor add.
[[nodiscard]] Tickets without_broken(Tickets tickets, const Chains& chains);

}  // namespace stagger::tickets
