// Optimal: the best table that a short search finds in the timing model asked for, starting from
// every static schedule here (search/optimize.hpp). `stagger optimize` searches longer and says
// what is proved; a table of this schedule is proved optimal where the report says so, and only
// there.

#include "schedules/schedule.hpp"
#include "schedules/search/evaluate.hpp"
#include "schedules/search/optimize.hpp"

#include <algorithm>

namespace stagger::schedules::optimal {
namespace {

constexpr Parameter kParameters[] = {
    {.name = "effort",
     .meaning = "how long it searches; `stagger optimize` has 100",
     .fallback = 3,
     .least = 0,
     .most = 100'000},
};

/// The best of the other static schedules.
std::optional<search::Incumbent> best_named(const Problem& problem, const Timing& timing) {
  std::optional<search::Incumbent> best;
  for (const Schedule* schedule : all()) {
    Selection selection = select(schedule->name);
    if (schedule->searches() || schedule->dispatch != Dispatch::static_) continue;
    if (why_unsupported(selection, problem)) continue;
    Table table = schedules::build(selection, problem, timing);
    const std::optional<search::Rating> rating = search::rating_of(table, timing);
    if (!rating || (best && best->cost <= rating->cost)) continue;
    best = {std::move(table), rating->makespan, rating->cost};
  }
  return best;
}

void search_lanes(const Problem& problem, const Timing& timing, const Parameters& parameters,
                  const Stop& stop, Table& table) {
  search::SearchOptions options;
  options.effort = parameters.at("effort");
  options.stop = [&] { return stop && stop(); };
  search::Optimum optimum =
      search::optimize(problem, {.timing = timing}, search::work_bound(problem, timing),
                       best_named(problem, timing), options);
  table.take_lanes(std::move(optimum.best->table));
}

}  // namespace

extern const Schedule kSchedule;
constinit const Schedule kSchedule{
    .name = "optimal",
    .summary = "the best table a short search finds in the timing model asked for",
    .source = "Stagger",
    .preconditions = "any mask",
    .dispatch = Dispatch::static_,
    .parameters = kParameters,
    .search = search_lanes,
};

}  // namespace stagger::schedules::optimal
