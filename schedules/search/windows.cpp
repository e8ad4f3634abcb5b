// The Q order matters less than the window, so that windows are compared with one Q order, and the
// others tried on the best two.
//
// In the model every phase lasts equally long; on a device it does not, and a turn that comes late
// is waited for. Where the tiles of a head go round (SM i has the tile that SM i + 1 had), lateness
// is handed on in one direction and averages out; where SMs exchange tiles, as they may in an
// order that no rule gives, each waits for the later of two, and soon for the latest of all: 6 % on
// an H200 at equal makespans. So the cyclic order is taken unless another is better by more than
// the model can tell.

#include "schedules/search/windows.hpp"

#include "schedules/search/evaluate.hpp"
#include "schedules/search/list_scheduling.hpp"
#include "schedules/search/safe_table.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace stagger::search {
namespace {

constexpr Ticks kUntold = 2'000;  ///< a part of the makespan so small that the model cannot tell

class Windows {
 public:
  Windows(const Problem& problem, const Timing& timing, const WindowOptions& options)
      : problem_(on_resident_sms(problem, timing.residency)), timing_(timing), options_(options) {}

  WindowedTable run(const std::vector<std::int32_t>& sizes) {
    const std::vector<std::int32_t> best_two =
        attempt_all(sizes, options_.q.value_or(QOrder::descending));
    if (!options_.q) {
      attempt_all(best_two, QOrder::ascending);
      attempt_all(best_two, QOrder::cyclic);
    }
    // Under a delayed release every list may hang.
    if (!makespan_) best_.table = safe_table(problem_);
    return std::move(best_);
  }

 private:
  /// Tries sizes with one Q order. Returns the best two of them.
  std::vector<std::int32_t> attempt_all(const std::vector<std::int32_t>& sizes, QOrder q) {
    std::vector<std::pair<Ticks, std::int32_t>> tried;
    for (const std::int32_t size : sizes) {
      if (const auto makespan = attempt(size, q)) tried.emplace_back(*makespan, size);
    }
    std::sort(tried.begin(), tried.end());
    tried.resize(std::min<std::size_t>(tried.size(), 2));
    std::vector<std::int32_t> best(tried.size());
    std::ranges::transform(tried, best.begin(), [](const auto& each) { return each.second; });
    return best;
  }

  std::optional<Ticks> attempt(std::int32_t size, QOrder q) {
    if (makespan_ && options_.stop && options_.stop()) return std::nullopt;
    Table table = list_schedule(problem_, timing_,
                                {.chains = ChainOrder::longest_by_head, .q = q, .window = size});
    const std::optional<Ticks> makespan = makespan_of(table, timing_);
    // What the cyclic order may take longer.
    const bool turns = q == QOrder::cyclic && best_.q != QOrder::cyclic;
    const Ticks margin = turns && makespan_ ? *makespan_ / kUntold + 1 : 0;
    if (makespan && (!makespan_ || *makespan < *makespan_ + margin)) {
      makespan_ = makespan;
      best_ = {.table = std::move(table), .heads = size, .q = q};
    }
    return makespan;
  }

  Problem problem_;  ///< on the SMs that are there
  const Timing& timing_;
  const WindowOptions& options_;
  std::optional<Ticks> makespan_;
  WindowedTable best_;
};

}  // namespace

std::vector<std::int32_t> window_sizes(std::int32_t heads) {
  std::vector<std::int32_t> sizes;
  for (std::int64_t size = 1; size < heads; size *= 2) {
    sizes.push_back(static_cast<std::int32_t>(size));
    if (size >= 2 && size / 2 * 3 < heads) sizes.push_back(static_cast<std::int32_t>(size / 2 * 3));
  }
  sizes.push_back(heads);
  return sizes;
}

WindowedTable windowed_table(const Problem& problem, const Timing& timing,
                             const WindowOptions& options) {
  WindowedTable windowed =
      Windows(problem, timing, options)
          .run(options.heads > 0 ? std::vector{options.heads} : window_sizes(problem.heads));
  Table& table = windowed.table;
  table.problem.sms = problem.sms;
  while (table.lanes() < problem.sms)
    table.end_lane();
  return windowed;
}

}  // namespace stagger::search
