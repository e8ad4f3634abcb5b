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

#include "core/beside.hpp"
#include "schedules/search/evaluate.hpp"
#include "schedules/search/list_scheduling.hpp"
#include "schedules/search/safe_table.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace stagger::search {
namespace {

constexpr Ticks kUntold = 2'000;   ///< a part of the cost so small that the model cannot tell
constexpr std::size_t kRated = 3;  ///< of the windows tried with a Q order, by all draws of chance

class Windows {
 public:
  Windows(const Problem& problem, const Timing& timing, const WindowOptions& options)
      : problem_(on_resident_sms(problem, timing.residency)),
        timing_(timing),
        options_(options),
        threads_(tables_at_a_time(options.threads, problem.tasks())) {}

  WindowedTable run(const std::vector<std::int32_t>& sizes) {
    first_ = sizes.front();
    const std::vector<std::int32_t> best_two =
        attempt_all(sizes, options_.q.value_or(QOrder::descending));
    if (!options_.q) {
      attempt_all(best_two, QOrder::ascending);
      attempt_all(best_two, QOrder::cyclic);
    }
    // Under a delayed release every list may hang.
    if (!cost_) best_.table = safe_table(problem_);
    return std::move(best_);
  }

 private:
  struct Attempt {
    WindowedTable windowed;
    Ticks cost = 0;
  };

  /// Tries sizes with one Q order. Returns the best two of them.
  std::vector<std::int32_t> attempt_all(const std::vector<std::int32_t>& sizes, QOrder q) {
    std::vector<Attempt> best = best_by_own_draw(sizes, q);
    if (best.size() > 1) rate(best);
    std::vector<std::pair<Ticks, std::int32_t>> tried;
    for (Attempt& attempt : best) {
      tried.emplace_back(attempt.cost, attempt.windowed.heads);
      take(std::move(attempt));
    }
    std::sort(tried.begin(), tried.end());
    tried.resize(std::min<std::size_t>(tried.size(), 2));
    std::vector<std::int32_t> two(tried.size());
    std::ranges::transform(tried, two.begin(), [](const auto& each) { return each.second; });
    return two;
  }

  /// Those that cost least by one draw of chance, the smallest windows first.
  [[nodiscard]] std::vector<Attempt> best_by_own_draw(const std::vector<std::int32_t>& sizes,
                                                      QOrder q) const {
    std::vector<Attempt> best;
    make_beside(
        sizes.size(), threads_, [&](std::size_t index) { return attempt(sizes[index], q); },
        [&](std::optional<Attempt> made) {
          if (!made) return;
          best.push_back(std::move(*made));
          if (best.size() <= kRated) return;
          best.erase(std::ranges::max_element(best, [](const Attempt& one, const Attempt& other) {
            return std::pair(one.cost, one.windowed.heads) <
                   std::pair(other.cost, other.windowed.heads);
          }));
        });
    return best;
  }

  /// By other draws of chance, unless it is stopped.
  void rate(std::vector<Attempt>& attempts) const {
    std::size_t rated = 0;
    make_beside(
        attempts.size(), threads_,
        [&](std::size_t index) {
          const Attempt& attempt = attempts[index];
          if (options_.stop && options_.stop()) return attempt.cost;
          return rating_of(attempt.windowed.table, timing_)->cost;
        },
        [&](Ticks cost) { attempts[rated++].cost = cost; });
  }

  /// The first attempt is made whatever `stop` says, so that there is a table.
  [[nodiscard]] std::optional<Attempt> attempt(std::int32_t size, QOrder q) const {
    const bool first = !cost_ && size == first_;
    const Stop stop = [&] { return !first && options_.stop && options_.stop(); };
    if (stop()) return std::nullopt;
    const ListRule rule{.chains = ChainOrder::longest_by_head, .q = q, .window = size};
    std::optional<Table> table = list_schedule(problem_, timing_, rule, stop);
    if (!table) return std::nullopt;
    const std::optional<Rating> rating = rating_by_own_draw(*table, timing_);
    if (!rating) return std::nullopt;
    return Attempt{{.table = std::move(*table), .heads = size, .q = q}, rating->cost};
  }

  void take(Attempt&& made) {
    // What the cyclic order may cost more.
    const bool turns = made.windowed.q == QOrder::cyclic && best_.q != QOrder::cyclic;
    const Ticks margin = turns && cost_ ? *cost_ / kUntold + 1 : 0;
    if (cost_ && made.cost >= *cost_ + margin) return;
    cost_ = made.cost;
    best_ = std::move(made.windowed);
  }

  Problem problem_;  ///< on the SMs that are there
  const Timing& timing_;
  const WindowOptions& options_;
  int threads_;
  std::int32_t first_ = 0;     ///< the size that is tried first
  std::optional<Ticks> cost_;  ///< of the best; absent: there is none
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
          .run(options.heads > 0 ? std::vector{options.heads} : window_sizes(problem.parts()));
  Table& table = windowed.table;
  table.problem.sms = problem.sms;
  while (table.lanes() < problem.sms)
    table.end_lane();
  return windowed;
}

}  // namespace stagger::search
