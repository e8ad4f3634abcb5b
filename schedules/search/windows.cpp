// The Q order matters less than the window, so that windows are compared with one Q order, and the
// others tried on the best two.
//
// With a memory several windows take nearly as long, and which is best is beyond what the model can
// tell: two memories that predict recorded runs of an H200 equally well differ by up to half a per
// cent in what they say of one window beside another. But what a window moves they say alike, and
// what moves more is slower than predicted, if anything: at 0.1 % between them, windows of 4 and of
// 16 heads move 1.0 and 2.7 GB and differ by 2 % on that device. So of windows that take nearly as
// long the one that moves least is taken.
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
#include "schedules/search/memory_time.hpp"
#include "schedules/search/safe_table.hpp"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

namespace stagger::search {
namespace {

/// Parts of the makespan so small that the model cannot tell: between windows whose traffic
/// differs, and between Q orders.
constexpr Ticks kUntoldOfWindows = 256;
constexpr Ticks kUntoldOfOrders = 2'000;

/// A table that was tried.
struct Attempt {
  Ticks makespan = 0;
  std::int64_t moved = 0;  ///< bytes of device memory; 0 without a memory
  std::int32_t heads = 0;
  QOrder q = QOrder::descending;
};

class Windows {
 public:
  Windows(const Problem& problem, const Timing& timing, const WindowOptions& options)
      : problem_(on_resident_sms(problem, timing.residency)), timing_(timing), options_(options) {}

  WindowedTable run(const std::vector<std::int32_t>& sizes) {
    attempt_all(sizes, options_.q.value_or(QOrder::descending));
    if (!options_.q) {
      const std::vector<std::int32_t> best = best_two();
      attempt_all(best, QOrder::ascending);
      attempt_all(best, QOrder::cyclic);
    }
    // Under a delayed release every list may hang.
    if (tried_.empty()) return {.table = safe_table(problem_)};
    const Attempt chosen = choice();
    const bool is_last = tried_.back().heads == chosen.heads && tried_.back().q == chosen.q;
    if (!is_last) last_ = list(chosen.heads, chosen.q);
    return {.table = std::move(last_), .heads = chosen.heads, .q = chosen.q};
  }

 private:
  void attempt_all(const std::vector<std::int32_t>& sizes, QOrder q) {
    for (const std::int32_t size : sizes) {
      if (!tried_.empty() && options_.stop && options_.stop()) return;
      attempt(size, q);
    }
  }

  void attempt(std::int32_t size, QOrder q) {
    Table table = list(size, q);
    Attempt attempt{.heads = size, .q = q};
    if (timing_.memory) {
      const std::optional<MemoryTime> time = memory_time(table, timing_);
      if (!time) return;
      attempt.makespan = time->makespan;
      attempt.moved = time->moved;
    } else {
      const std::optional<Ticks> makespan = makespan_of(table, timing_);
      if (!makespan) return;
      attempt.makespan = *makespan;
    }
    tried_.push_back(attempt);
    last_ = std::move(table);
  }

  [[nodiscard]] Table list(std::int32_t size, QOrder q) const {
    return list_schedule(problem_, timing_,
                         {.chains = ChainOrder::longest_by_head, .q = q, .window = size});
  }

  /// The windows that other Q orders are tried on.
  [[nodiscard]] std::vector<std::int32_t> best_two() const {
    std::vector<std::int32_t> best;
    std::vector<Attempt> left = tried_;
    while (best.size() < 2 && !left.empty()) {
      const auto next = least_moving(left);
      best.push_back(next->heads);
      left.erase(next);
    }
    return best;
  }

  /// Of those that take nearly as long as the fastest the one that moves least, of equals the
  /// fastest, then the one that was tried first.
  static std::vector<Attempt>::const_iterator least_moving(const std::vector<Attempt>& attempts) {
    const Ticks least = std::ranges::min(attempts, {}, &Attempt::makespan).makespan;
    return std::ranges::min_element(attempts, {}, [least](const Attempt& each) {
      const bool slower = each.makespan > least + least / kUntoldOfWindows;
      return std::tuple{slower, each.moved, each.makespan};
    });
  }

  /// The window that moves least, in its fastest Q order or, a little slower, the cyclic one, which
  /// was tried last. Another window that moves no more will do for that.
  [[nodiscard]] Attempt choice() const {
    const Attempt least = *least_moving(tried_);
    Attempt best = least;
    for (const Attempt& each : tried_) {
      if (each.heads != least.heads && each.moved > least.moved) continue;
      const bool turns = each.q == QOrder::cyclic && best.q != QOrder::cyclic;
      const Ticks margin = turns ? each.makespan / kUntoldOfOrders + 1 : 0;
      if (each.makespan < best.makespan + margin) best = each;
    }
    return best;
  }

  Problem problem_;  ///< on the SMs that are there
  const Timing& timing_;
  const WindowOptions& options_;
  std::vector<Attempt> tried_;  ///< those that end
  Table last_;                  ///< of the last of them
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
