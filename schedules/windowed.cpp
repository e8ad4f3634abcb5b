// Windowed: list scheduling that takes the heads window by window. A free SM takes the longest
// chain left of the window's heads, and of its Q tiles the one that can reduce soonest; chains of
// the next window follow when none is left. As a window ends with short chains and the next begins
// with long ones, no SM waits between them, and only the last window decides how even the SMs end:
// the load is as even as if all heads were one window. But only the dQ tiles of about two windows
// are in flight at a time. The fewer heads a window has, the more of dQ stays in L2, and the more
// SMs await the same Q tiles.
//
// With a memory in the timing model (core/memory.hpp) the window is the one with the smallest
// makespan in it; without one it knows no reason for a small window, and tries the same ones.
// Source: Graham 1969 for the list; a window on heads is what FlashAttention-3's L2 swizzle is.

#include "core/limits.hpp"
#include "schedules/parameters.hpp"
#include "schedules/schedule.hpp"
#include "schedules/search/windows.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace stagger::schedules::windowed {

extern const Schedule kSchedule;

namespace {

constexpr const char* kQWords[] = {"best", "cyclic", "ascending", "descending"};
constexpr search::QOrder kQOrders[] = {search::QOrder::cyclic, search::QOrder::ascending,
                                       search::QOrder::descending};

constexpr Parameter kParameters[] = {
    {.name = "heads",
     .meaning = "of a window; 0: what the model says is best",
     .fallback = 0,
     .least = 0,
     .most = kMaxHeads},
    {.name = "q",
     .meaning = "which Q tile of those that can reduce soonest; best: what the model says",
     .fallback = 0,
     .least = 0,
     .most = std::size(kQWords) - 1,
     .words = kQWords},
};

/// The table has the name of the window and the Q order that were chosen, by which it can be made
/// again where another model would choose others.
void search_lanes(const Problem& problem, const Timing& timing, const Parameters& parameters,
                  const Stop& stop, Table& table) {
  search::WindowOptions options{.heads = static_cast<std::int32_t>(parameters.at("heads")),
                                .stop = stop};
  if (const std::int64_t q = parameters.at("q"); q > 0) options.q = kQOrders[q - 1];
  search::WindowedTable windowed = search::windowed_table(problem, timing, options);
  if (windowed.heads > 0) {
    Parameters chosen = parameters;
    chosen["heads"] = windowed.heads;
    chosen["q"] = 1 + (std::ranges::find(kQOrders, windowed.q) - std::begin(kQOrders));
    table.name = words_of(kSchedule, chosen);
  }
  table.take_lanes(std::move(windowed.table));
}

}  // namespace

constinit const Schedule kSchedule{
    .name = "windowed",
    .summary = "list scheduling by windows of heads, so that dQ stays in the L2 cache",
    .source = "Stagger",
    .preconditions = "any mask",
    .dispatch = Dispatch::static_,
    .parameters = kParameters,
    .search = search_lanes,
    .searches_heads = true,
};

}  // namespace stagger::schedules::windowed
