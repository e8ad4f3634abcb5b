#include "workbench/finalists.hpp"

#include "core/beside.hpp"
#include "core/error.hpp"
#include "schedules/schedule.hpp"
#include "workbench/rating.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace stagger::workbench {
namespace {

bool same(const Table& one, const Table& other) {
  return one.problem.span == other.problem.span && one.dispatch == other.dispatch &&
         one.lane_begin == other.lane_begin && one.slots == other.slots &&
         one.dkv_ranks == other.dkv_ranks;
}

/// Those that did not fail first, by their medians.
bool is_before(const Finalist& one, const Finalist& other) {
  if (one.failed.empty() != other.failed.empty()) return one.failed.empty();
  return one.failed.empty() && one.median_ns() < other.median_ns();
}

/// What may be a finalist of a problem beside the table that was found.
std::vector<schedules::Selection> selections_for(const Problem& problem, const Timing& timing) {
  std::vector<schedules::Selection> selections =
      schedules::unsearched(problem, timing.memory.has_value());
  if (!timing.memory) return selections;
  const bool has_orders = problem.span > 1;
  selections.push_back(schedules::select(has_orders ? "windowed:order=q-major" : "windowed"));
  if (has_orders) selections.push_back(schedules::select("windowed:order=head-major"));
  return selections;
}

/// Nothing if the table hangs.
std::optional<Finalist> made_by(const schedules::Selection& selection, const Problem& problem,
                                const TimeModel& model) {
  Table table = schedules::build(selection, problem, model.timing);
  const std::optional<search::Rating> rating = played_rating(table, model.timing);
  if (!rating) return std::nullopt;
  std::string name = table.name;
  return Finalist{.name = std::move(name),
                  .table = std::move(table),
                  .model = model,
                  .makespan = rating->makespan,
                  .cost = rating->cost};
}

/// The best `count` of those that come, each table once.
class Best {
 public:
  explicit Best(std::size_t count) : count_(count) {}

  void take(Finalist&& finalist) {
    const bool known = std::ranges::any_of(
        found_, [&](const Finalist& each) { return same(each.table, finalist.table); });
    if (known) return;
    found_.push_back(std::move(finalist));
    std::ranges::stable_sort(found_, {}, &Finalist::whole);
    if (found_.size() > count_) found_.pop_back();
  }

  std::vector<Finalist> found() && { return std::move(found_); }

 private:
  std::size_t count_;
  std::vector<Finalist> found_;
};

/// What a search found of one span, and what schedules make of it.
void take_all(const Optimization& optimization, std::int64_t threads,
              const std::function<bool()>& stop, Best& best) {
  const search::Incumbent& own = *optimization.optimum.best;
  const Problem& problem = own.table.problem;
  const TimeModel& model = optimization.model;
  best.take({.name = own.table.name,
             .table = own.table,
             .model = model,
             .makespan = own.makespan,
             .cost = own.cost});
  const std::vector<schedules::Selection> selections = selections_for(problem, model.timing);
  make_beside(
      selections.size(), tables_at_a_time(threads, problem.tasks()),
      [&](std::size_t index) -> std::optional<Finalist> {
        if (stop && stop()) return std::nullopt;
        return made_by(selections[index], problem, model);
      },
      [&](std::optional<Finalist> made) {
        if (made) best.take(std::move(*made));
      });
}

}  // namespace

std::int64_t Finalist::median_ns() const {
  STAGGER_EXPECTS(!ns.empty());
  std::vector<std::int64_t> sorted = ns;
  std::ranges::sort(sorted);
  return sorted[sorted.size() / 2];
}

std::vector<Finalist> finalists_of(const Optimization& optimization, std::size_t count,
                                   std::int64_t threads, const std::function<bool()>& stop) {
  STAGGER_EXPECTS(optimization.optimum.best && !optimization.slot_model && count > 0);
  Best best(count);
  take_all(optimization, threads, stop, best);
  for (const Optimization& other : optimization.others)
    take_all(other, threads, stop, best);
  return std::move(best).found();
}

void measure(std::vector<Finalist>& finalists, int rounds, const TimedRun& run,
             const GoesOn& goes_on) {
  const std::size_t all = static_cast<std::size_t>(rounds) * finalists.size();
  for (std::size_t done = 0; done < all; ++done) {
    if (goes_on && !goes_on(done, all)) break;
    Finalist& finalist = finalists[done % finalists.size()];
    if (!finalist.failed.empty()) continue;
    try {
      finalist.ns.push_back(run(finalist));
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
