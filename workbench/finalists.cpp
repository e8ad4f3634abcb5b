#include "workbench/finalists.hpp"

#include "core/error.hpp"
#include "schedules/schedule.hpp"
#include "workbench/rating.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace stagger::workbench {
namespace {

bool same(const Table& one, const Table& other) {
  return one.dispatch == other.dispatch && one.lane_begin == other.lane_begin &&
         one.slots == other.slots && one.dkv_ranks == other.dkv_ranks;
}

/// Those that did not fail first, by their medians.
bool is_before(const Finalist& one, const Finalist& other) {
  if (one.failed.empty() != other.failed.empty()) return one.failed.empty();
  return one.failed.empty() && one.median_ns() < other.median_ns();
}

}  // namespace

std::int64_t Finalist::median_ns() const {
  STAGGER_EXPECTS(!ns.empty());
  std::vector<std::int64_t> sorted = ns;
  std::ranges::sort(sorted);
  return sorted[sorted.size() / 2];
}

std::vector<Finalist> finalists_of(const Optimization& optimization, std::size_t count) {
  STAGGER_EXPECTS(optimization.optimum.best && !optimization.slot_model && count > 0);
  const Timing& timing = optimization.model.timing;
  const search::Incumbent& best = *optimization.optimum.best;
  std::vector<Finalist> found = {
      {.name = best.table.name, .table = best.table, .makespan = best.makespan, .cost = best.cost}};
  const schedules::Schedule& windowed = *schedules::select("windowed").schedule;
  for (const schedules::Schedule* schedule : schedules::all()) {
    if (schedule->searches && !(timing.memory && schedule == &windowed)) continue;
    for (const schedules::Selection& selection :
         schedules::variants(*schedule, timing.memory.has_value())) {
      if (schedules::why_unsupported(selection, best.table.problem)) continue;
      Table table = schedules::build(selection, best.table.problem, timing);
      const std::optional<search::Rating> rating = played_rating(table, timing);
      const bool known =
          std::ranges::any_of(found, [&](const Finalist& each) { return same(each.table, table); });
      if (!rating || known) continue;
      const std::string name = table.name;
      found.push_back({.name = name,
                       .table = std::move(table),
                       .makespan = rating->makespan,
                       .cost = rating->cost});
      std::ranges::stable_sort(found, {}, &Finalist::cost);
      if (found.size() > count) found.pop_back();
    }
  }
  return found;
}

void measure(std::vector<Finalist>& finalists, int rounds, const TimedRun& run,
             const GoesOn& goes_on) {
  const std::size_t all = static_cast<std::size_t>(rounds) * finalists.size();
  for (std::size_t done = 0; done < all; ++done) {
    if (goes_on && !goes_on(done, all)) break;
    Finalist& finalist = finalists[done % finalists.size()];
    if (!finalist.failed.empty()) continue;
    try {
      finalist.ns.push_back(run(finalist.table));
    } catch (const Error& error) {
      finalist.failed = error.what();
    }
  }
  for (Finalist& finalist : finalists) {
    if (finalist.failed.empty() && finalist.ns.empty()) finalist.failed = "not run";
  }
  std::ranges::stable_sort(finalists, is_before);
}

}  // namespace stagger::workbench
