// Windows of heads. With more heads in flight than the L2 cache can hold dQ tiles for, every
// reduction goes to memory, and the table that is best in a model without memory is slower on the
// device than one that is longer. A window bounds what is in flight. Windows of one head, causal, 2
// KV tiles, on 2 SMs (a digit is a task's head):
//
//   one window       SM 0  0 0          SM 1  0
//   three glued      SM 0  0 0 1 2 2    SM 1  0 1 1 2
//
// Lanes of one window differ in length; the longest goes to the SM that has had least.

#include "schedules/search/windows.hpp"

#include "core/error.hpp"
#include "schedules/search/chain.hpp"
#include "schedules/search/effort.hpp"
#include "schedules/search/evaluate.hpp"
#include "schedules/search/list_scheduling.hpp"
#include "schedules/search/local_search.hpp"
#include "schedules/search/optimize.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace stagger::search {
namespace {

/// Sums of ticks that an SM spends on slots at least, waits left out.
Ticks load_of(const Problem& problem, const Timing& timing, std::span<const Slot> slots) {
  Ticks load = 0;
  for (const Slot& slot : slots) {
    const Ticks compute = timing.compute_of(problem, slot.task);
    const bool overlap = timing.model == Model::overlap;
    load += overlap ? std::max(compute, timing.reduce) : compute + timing.reduce;
    if (begins_chain(slots.data(), &slot)) load += timing.launch + timing.epilogue;
  }
  return load;
}

/// Indices of `loads`, the least (or greatest) load first, of equals the lower index.
std::vector<std::size_t> order_by(const std::vector<Ticks>& loads, bool greatest_first) {
  std::vector<std::size_t> order(loads.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t left, std::size_t right) {
    return greatest_first ? loads[left] > loads[right] : loads[left] < loads[right];
  });
  return order;
}

class Windows {
 public:
  Windows(const Problem& problem, const Timing& timing, const WindowOptions& options)
      : problem_(on_resident_sms(problem, timing.residency)),
        sms_(problem.sms),
        timing_(timing),
        options_(options),
        lanes_(static_cast<std::size_t>(problem_.sms)),
        loads_(lanes_.size(), 0) {}

  Table run() {
    for (std::int32_t first = 0; first < problem_.heads; first += options_.heads) {
      const std::int32_t heads = std::min(options_.heads, problem_.heads - first);
      if (window_.problem.heads != heads || first == 0) solve(heads);
      glue(first);
    }
    Table table = shortest();
    table.problem.sms = sms_;
    while (table.lanes() < sms_)
      table.end_lane();
    return table;
  }

 private:
  void solve(std::int32_t heads) {
    Problem window = problem_;
    window.heads = heads;
    SearchOptions search;
    search.seed = options_.seed;
    search.effort = options_.effort;
    search.stop = options_.stop;
    window_ = std::move(
        optimize(window, {.timing = timing_}, work_bound(window, timing_), std::nullopt, search)
            .best->table);
    window_loads_.clear();
    for (Lane lane{0}; lane.value < window_.lanes(); ++lane)
      window_loads_.push_back(load_of(window_.problem, timing_, window_.lane(lane)));
  }

  void glue(std::int32_t first_head) {
    const std::vector<std::size_t> longest = order_by(window_loads_, true);
    const std::vector<std::size_t> idlest = order_by(loads_, false);
    for (std::size_t place = 0; place < idlest.size(); ++place) {
      const Lane lane{static_cast<std::int32_t>(longest[place])};
      for (Slot slot : window_.lane(lane)) {
        slot.task.head.value += first_head;
        lanes_[idlest[place]].push_back(slot);
      }
      loads_[idlest[place]] += window_loads_[longest[place]];
    }
  }

  /// The glued table, or its chains with other Q orders, polished.
  [[nodiscard]] Table shortest() const {
    LocalSearchOptions options{.seed = options_.seed,
                               .plays = options_.effort * kPlays,
                               .at_least = work_bound(problem_, timing_).ticks,
                               .stop = options_.stop,
                               .makespan = [this](const Table& table) {
                                 return makespan_of(table, timing_).value_or(-1);
                               }};
    Table best = table_of(problem_, lanes_);
    Ticks least = options.makespan(best);
    STAGGER_EXPECTS(least >= 0);
    const bool repeated = problem_.heads > options_.heads;  // else the search has done all this
    const ChainLanes chains = chains_in_lanes();
    for (std::int64_t rule = 0; repeated && rule < rules(); ++rule) {
      if (least <= options.at_least || options_.stop()) break;
      Table table = list_schedule(problem_, timing_, chains, static_cast<QOrder>(rule));
      const Ticks makespan = options.makespan(table);
      if (makespan < 0 || makespan >= least) continue;
      best = std::move(table);
      least = makespan;
    }
    return repeated ? polish(std::move(best), timing_, options).table : best;
  }

  [[nodiscard]] ChainLanes chains_in_lanes() const {
    ChainLanes chains(lanes_.size());
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
      for (const Slot& slot : lanes_[lane]) {
        if (!begins_chain(lanes_[lane].data(), &slot)) continue;
        chains[lane].push_back(
            {slot.task.head, slot.task.kv, problem_.grid.chain_length(slot.task.kv)});
      }
    }
    return chains;
  }

  /// Q orders that list scheduling may try.
  [[nodiscard]] std::int64_t rules() const {
    return std::min<std::int64_t>(kQOrders, most_rules(problem_, options_.effort));
  }

  const Problem problem_;  ///< on the SMs that are there
  std::int32_t sms_;       ///< of the problem asked for: its tables have as many lanes
  const Timing& timing_;
  const WindowOptions& options_;
  Table window_;                     ///< of the heads 0 …
  std::vector<Ticks> window_loads_;  ///< by its lane
  std::vector<std::vector<Slot>> lanes_;
  std::vector<Ticks> loads_;  ///< by lane
};

}  // namespace

Table windowed(const Problem& problem, const Timing& timing, const WindowOptions& options) {
  STAGGER_EXPECTS(options.heads >= 1);
  check_timing(timing, problem);
  return Windows(problem, timing, options).run();
}

}  // namespace stagger::search
