// Delta debugging: halves of what there is are left out while the rest still hangs, then quarters,
// down to single ones; programs first, then semaphores, then steps, and again until nothing goes.

#include "workbench/tickets/minimize.hpp"

#include "core/error.hpp"
#include "workbench/tickets/play.hpp"

#include <algorithm>
#include <map>
#include <vector>

namespace stagger::tickets {
namespace {

constexpr std::int64_t kWork = std::int64_t{1} << 26;  ///< steps played, at most

/// The tickets with only some of their steps: values count what is left.
Tickets kept(const Tickets& tickets, const std::vector<bool>& keep) {
  // Additions that go, by semaphore, each with the value that it was made at; without a wait it
  // was made at the beginning.
  std::map<Semaphore, std::vector<std::pair<std::int64_t, std::int64_t>>> gone;
  for (std::int64_t index = 0; index < std::ssize(tickets.steps); ++index) {
    const Step& step = tickets.steps[index];
    if (keep[at(index)] || step.add == 0) continue;
    gone[step.semaphore].emplace_back(
        step.waits() ? step.wait : tickets.initial[step.semaphore] - 1, step.add);
  }
  Tickets part{.name = tickets.name,
               .dispatch = tickets.dispatch,
               .release = tickets.release,
               .residency = tickets.residency,
               .initial = tickets.initial};
  for (Program program{0}; program.value < tickets.programs(); ++program) {
    for (std::int64_t index = tickets.begin_of(program); index < tickets.end_of(program); ++index) {
      if (!keep[at(index)]) continue;
      Step step = tickets.steps[index];
      if (step.waits() && gone.contains(step.semaphore)) {
        std::int64_t wait = step.wait;
        for (const auto& [value, add] : gone[step.semaphore])
          wait -= value < step.wait ? add : 0;
        step.wait = static_cast<std::int32_t>(std::max<std::int64_t>(wait, -INT32_MAX));
      }
      part.steps.push_back(step);
    }
    if (part.program_begin.back() < std::ssize(part.steps)) part.end_program();
  }
  return part;
}

class Minimizer {
 public:
  explicit Minimizer(const Tickets& tickets) : best_(tickets) {}

  Tickets run() {
    std::int64_t before = -1;
    while (before != std::ssize(best_.steps) + best_.residency && work_ < kWork) {
      before = std::ssize(best_.steps) + best_.residency;
      leave_out([&](std::int64_t step) { return std::int64_t{best_.program_of(step).value}; });
      leave_out([&](std::int64_t step) { return std::int64_t{best_.steps[step].semaphore.value}; });
      leave_out([&](std::int64_t step) { return step; });
    }
    return std::move(best_);
  }

 private:
  /// Leaves out parts, each of the steps of neighbouring groups, from halves of the groups on.
  template <class GroupOf>
  void leave_out(GroupOf group_of) {
    std::int64_t groups = 0;
    for (std::int64_t step = 0; step < std::ssize(best_.steps); ++step)
      groups = std::max(groups, group_of(step) + 1);
    for (std::int64_t size = divide(groups); size > 0; size = size == 1 ? 0 : divide(size)) {
      // From the back, so that the numbers of those in front stay.
      for (std::int64_t begin = (groups - 1) / size * size; begin >= 0; begin -= size) {
        std::vector<bool> keep(best_.steps.size());
        for (std::int64_t step = 0; step < std::ssize(best_.steps); ++step) {
          const std::int64_t group = group_of(step);
          keep[at(step)] = group < begin || group >= begin + size;
        }
        if (!try_part(keep)) return;
      }
    }
  }
  static std::int64_t divide(std::int64_t size) { return (size + 1) / 2; }

  /// False if there is no work left to spend.
  bool try_part(const std::vector<bool>& keep) {
    if (work_ >= kWork) return false;
    if (std::all_of(keep.begin(), keep.end(), [](bool kept) { return kept; })) return true;
    Tickets part = kept(best_, keep);
    if (hangs(part)) {
      best_ = std::move(part);
      return true;
    }
    const std::int32_t fewer = best_.programs() - part.programs();
    if (part.residency <= fewer || fewer == 0) return true;
    part.residency -= fewer;
    if (hangs(part)) best_ = std::move(part);
    return true;
  }

  bool hangs(const Tickets& part) {
    work_ += std::ssize(best_.steps) + 1;
    return !part.steps.empty() && play(part).hangs;
  }

  Tickets best_;
  std::int64_t work_ = 0;
};

}  // namespace

Tickets minimize(const Tickets& tickets) {
  STAGGER_EXPECTS(play(tickets).hangs);
  return Minimizer(tickets).run();
}

}  // namespace stagger::tickets
