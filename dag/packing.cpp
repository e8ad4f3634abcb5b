#include "dag/packing.hpp"

#include "core/error.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>

namespace stagger::dag {
namespace {

std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

/// `jobs` is sorted, longest first.
Ticks lower_bound(const std::vector<Ticks>& jobs, std::int32_t machines) {
  const Ticks sum = std::accumulate(jobs.begin(), jobs.end(), Ticks{0});
  Ticks bound = std::max(jobs.front(), sum / machines + (sum % machines != 0 ? 1 : 0));
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

/// Depth first over jobs, longest first; a machine only if no other of the same load was tried.
class BranchAndBound {
 public:
  BranchAndBound(const std::vector<Ticks>& jobs, std::int32_t machines, std::int64_t nodes)
      : jobs_(jobs), loads_(at(machines), 0), nodes_(nodes) {}

  void improve(Packing& packing) {
    best_ = packing.upper;
    enough_ = packing.lower;
    place(0);
    packing.upper = best_;
    if (nodes_ > 0) packing.lower = best_;  // searched to the end: the best is optimal
  }

 private:
  void place(std::size_t job) {
    if (best_ == enough_ || --nodes_ <= 0) return;
    if (job == jobs_.size()) {
      best_ = *std::max_element(loads_.begin(), loads_.end());
      return;
    }
    for (std::size_t machine = 0; machine < loads_.size(); ++machine) {
      const Ticks load = loads_[machine];
      const auto same = std::find(loads_.begin(), loads_.begin() + std::ptrdiff_t(machine), load);
      if (same != loads_.begin() + std::ptrdiff_t(machine)) continue;
      if (load + jobs_[job] >= best_) continue;
      loads_[machine] += jobs_[job];
      place(job + 1);
      loads_[machine] = load;
    }
  }

  const std::vector<Ticks>& jobs_;
  std::vector<Ticks> loads_;
  std::int64_t nodes_;
  Ticks best_ = 0;
  Ticks enough_ = 0;
};

// A node costs up to machines^2 / 2 comparisons; beyond these sizes the bounds have to do.
constexpr std::size_t kSearchJobs = 128;
constexpr std::int32_t kSearchMachines = 64;

}  // namespace

Packing pack(std::vector<Ticks> jobs, std::int32_t machines, std::int64_t nodes) {
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
  if (!packing.exact() && jobs.size() <= kSearchJobs && machines <= kSearchMachines) {
    BranchAndBound(jobs, machines, nodes).improve(packing);
  }
  return {.lower = packing.lower * unit, .upper = packing.upper * unit};
}

}  // namespace stagger::dag
