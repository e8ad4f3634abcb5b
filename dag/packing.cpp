#include "dag/packing.hpp"

#include "core/checked.hpp"
#include "core/error.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <queue>
#include <set>

namespace stagger::dag {
namespace {

/// Nodes until it is asked whether to stop: milliseconds.
constexpr std::int64_t kAskedNodes = 4096;

/// `jobs` is sorted, longest first.
Ticks lower_bound(const std::vector<Ticks>& jobs, std::int32_t machines) {
  const Ticks sum = std::accumulate(jobs.begin(), jobs.end(), Ticks{0});
  Ticks bound = std::max(jobs.front(), divide_up(sum, machines));
  // Of the k*machines + 1 longest jobs, some machine takes k + 1; at best the shortest of them.
  std::vector<Ticks> before(jobs.size() + 1, 0);
  std::partial_sum(jobs.begin(), jobs.end(), before.begin() + 1);
  for (std::int64_t k = 1; k * machines < std::ssize(jobs); ++k) {
    const std::int64_t longest = k * machines + 1;
    bound = std::max(bound, before[at(longest)] - before[at(longest - (k + 1))]);
  }
  return bound;
}

Ticks longest_first(const std::vector<Ticks>& jobs, std::int32_t machines) {
  std::priority_queue<Ticks, std::vector<Ticks>, std::greater<>> loads;
  for (std::int32_t machine = 0; machine < machines; ++machine)
    loads.push(0);
  Ticks makespan = 0;
  for (const Ticks job : jobs) {
    const Ticks load = loads.top() + job;
    loads.pop();
    loads.push(load);
    makespan = std::max(makespan, load);
  }
  return makespan;
}

/// "Do the jobs fit on the machines by a deadline?", machine by machine: each takes the longest job
/// left and others that fill it, the fullest filling first, while the idle time of all machines
/// stays within what there is. What was left when that failed is not tried again.
class Filling {
 public:
  enum class Verdict { fits, fails, unknown };

  /// `jobs` is sorted, longest first.
  Filling(const std::vector<Ticks>& jobs, std::int32_t machines, Ticks deadline,
          std::int64_t& nodes, const Stop& stop)
      : machines_(machines), deadline_(deadline), nodes_(nodes), stop_(stop) {
    Ticks sum = 0;
    for (const Ticks job : jobs) {
      if (lengths_.empty() || lengths_.back() != job) {
        lengths_.push_back(job);
        left_.push_back(0);
      }
      ++left_.back();
      sum += job;
    }
    idle_ = machines * deadline - sum;
  }

  Verdict run() {
    if (idle_ < 0) return Verdict::fails;
    if (next_machine(machines_)) return Verdict::fits;
    return nodes_ > 0 ? Verdict::fails : Verdict::unknown;
  }

 private:
  bool next_machine(std::int32_t machines) {
    const auto longest =
        std::find_if(left_.begin(), left_.end(), [](auto count) { return count > 0; });
    if (longest == left_.end()) return true;
    if (machines == 0 || failed_.contains(left_)) return false;
    const auto first = static_cast<std::size_t>(longest - left_.begin());
    --left_[first];
    const bool fits = fill(first, deadline_ - lengths_[first], machines);
    ++left_[first];
    if (!fits && nodes_ > 0) failed_.insert(left_);
    return fits;
  }

  /// Adds jobs to a machine with `room` left, from `length` on to shorter ones, as many as fit
  /// first.
  bool fill(std::size_t length, Ticks room, std::int32_t machines) {
    if (!goes_on()) return false;
    for (; length < lengths_.size(); ++length) {
      const Ticks most = std::min(left_[length], room / lengths_[length]);
      for (Ticks count = most; count > 0; --count) {
        left_[length] -= count;
        const bool fits = fill(length + 1, room - count * lengths_[length], machines);
        left_[length] += count;
        if (fits || nodes_ <= 0) return fits;
      }
    }
    if (room > idle_) return false;
    idle_ -= room;
    const bool fits = next_machine(machines - 1);
    idle_ += room;
    return fits;
  }

  /// Counts a node; false after the last one, which is this one if it is time to stop.
  bool goes_on() {
    --nodes_;
    if (nodes_ % kAskedNodes == 0 && stop_()) nodes_ = 0;
    return nodes_ > 0;
  }

  std::int32_t machines_;
  Ticks deadline_;
  std::int64_t& nodes_;
  const Stop& stop_;
  Ticks idle_ = 0;              ///< idle time that all machines may still have
  std::vector<Ticks> lengths_;  ///< the different ones, longest first
  std::vector<Ticks> left_;     ///< jobs left, by length
  std::set<std::vector<Ticks>> failed_;
};

/// Raises the lower bound to the first deadline that is not refuted.
void search(const std::vector<Ticks>& jobs, std::int32_t machines, std::int64_t nodes,
            const Stop& stop, Packing& packing) {
  constexpr std::size_t kJobs = 4096;  // frames of the recursion
  if (jobs.size() > kJobs || packing.upper > std::numeric_limits<Ticks>::max() / machines) return;
  while (!packing.exact()) {
    switch (Filling(jobs, machines, packing.lower, nodes, stop).run()) {
      case Filling::Verdict::fits:
        packing.upper = packing.lower;
        break;
      case Filling::Verdict::fails:
        ++packing.lower;
        break;
      case Filling::Verdict::unknown:
        return;
    }
  }
}

}  // namespace

Packing pack(std::vector<Ticks> jobs, std::int32_t machines, std::int64_t nodes, const Stop& stop) {
  STAGGER_EXPECTS(machines >= 1);
  std::erase(jobs, 0);
  if (jobs.empty()) return {};
  // In units of the common divisor, so that rounding up is as sharp as it can be.
  const Ticks unit = std::accumulate(jobs.begin(), jobs.end(), Ticks{0},
                                     [](Ticks left, Ticks right) { return std::gcd(left, right); });
  for (Ticks& job : jobs)
    job /= unit;
  std::sort(jobs.begin(), jobs.end(), std::greater<>());
  Packing packing{.lower = lower_bound(jobs, machines), .upper = longest_first(jobs, machines)};
  search(jobs, machines, nodes, stop, packing);
  return {.lower = packing.lower * unit, .upper = packing.upper * unit};
}

}  // namespace stagger::dag
