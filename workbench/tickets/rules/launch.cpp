#include "workbench/tickets/rules/launch.hpp"

#include <utility>

namespace stagger::tickets {
namespace {

/// Whether programs can be launched so that each waits only for earlier ones: whether the graph of
/// who comes before whom has no cycle.
class Sorting {
 public:
  explicit Sorting(std::int32_t programs)
      : after_(programs, std::vector<Program>{}), before_(programs, 0) {}

  void add(Program first, Program second) {
    if (first == second) return;
    after_[first].push_back(second);
    ++before_[second];
  }
  bool possible() {
    std::vector<Program> free;
    std::int64_t sorted = 0;
    for (Program program{0}; program.value < std::ssize(before_); ++program) {
      if (before_[program] == 0) free.push_back(program);
    }
    while (!free.empty()) {
      const Program program = free.back();
      free.pop_back();
      ++sorted;
      for (const Program next : after_[program]) {
        if (--before_[next] == 0) free.push_back(next);
      }
    }
    return sorted == std::ssize(before_);
  }

 private:
  IndexVector<Program, std::vector<Program>> after_;
  IndexVector<Program, std::int64_t> before_;
};

class Looking {
 public:
  explicit Looking(const Facts& facts) : facts_(facts), sorting_(facts.tickets.programs()) {}

  LaunchOrder run() {
    std::vector<bool> is_broken(at(facts_.tickets.semaphores()), false);
    for (const Broken& broken : facts_.chains.broken())
      is_broken[at(broken.semaphore)] = true;
    for (Semaphore semaphore{0}; semaphore.value < facts_.tickets.semaphores(); ++semaphore) {
      if (!is_broken[at(semaphore)]) look_at(semaphore);
    }
    order_.needed = facts_.ordered.residency_needed;
    order_.reversed = !order_.contrary.empty() && descending_ == shared_;
    order_.meant =
        facts_.origin != Origin::given || 2 * ascending_ > shared_ || sorting_.possible();
    return std::move(order_);
  }

 private:
  void look_at(Semaphore semaphore) {
    const std::span<const std::int64_t> waits = facts_.chains.waits(semaphore);
    const std::span<const std::int64_t> bumps = facts_.chains.bumps(semaphore);
    if (waits.empty() || waits.size() + bumps.size() < 2) return;
    ascends_ = descends_ = true;
    for (const std::int64_t bump : bumps)
      follow(bump, waits.front());
    for (std::size_t index = 1; index < waits.size(); ++index)
      follow(waits[index - 1], waits[index]);
    ++shared_;
    ascending_ += ascends_ ? 1 : 0;
    descending_ += descends_ ? 1 : 0;
  }

  /// One step comes before another at their semaphore.
  void follow(std::int64_t before, std::int64_t step) {
    const Program first = facts_.tickets.program_of(before);
    const Program second = facts_.tickets.program_of(step);
    if (ascends_ && second < first) order_.contrary.push_back(step);
    ascends_ = ascends_ && first <= second;
    descends_ = descends_ && second <= first;
    sorting_.add(first, second);
  }

  const Facts& facts_;
  Sorting sorting_;
  LaunchOrder order_;
  bool ascends_ = true;   ///< what is looked at
  bool descends_ = true;  ///< likewise
  std::int64_t ascending_ = 0;
  std::int64_t descending_ = 0;
  std::int64_t shared_ = 0;  ///< semaphores of several steps
};

}  // namespace

LaunchOrder launch_order(const Facts& facts) {
  return Looking(facts).run();
}

}  // namespace stagger::tickets
