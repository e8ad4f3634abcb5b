#pragma once

#include "core/table.hpp"
#include "core/timing.hpp"
#include "schedules/search/list_scheduling.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace stagger::search {

struct WindowOptions {
  std::int32_t heads = 0;                  ///< (parts) of a window; 0: best of window_sizes()
  std::optional<QOrder> q = std::nullopt;  ///< absent: the best
  int threads = 0;                         ///< 0: as many as the machine has
  std::function<bool()> stop = {};         ///< asked in every table but the first; none: never
};

/// A table, and the window and Q order that it is of: 0 heads if every list hung.
struct WindowedTable {
  Table table;
  std::int32_t heads = 0;
  QOrder q = QOrder::descending;
};

/// Sizes of windows on heads that are worth trying: 1, 2, 3, 4, 6, 8, 12 … below the number of
/// heads, and that.
[[nodiscard]] std::vector<std::int32_t> window_sizes(std::int32_t heads);

/// The best table of list scheduling by windows of heads, longest chain first, over the Q orders or
/// of one of them.
/// The best is the one that costs least (rating.hpp) of the three of each Q order that cost least
/// by the memory's own draw of chance, without a memory the one with the smallest makespan; of
/// equals the one with the smaller window, but one in which the Q tiles go round if none is better
/// by more than one in 2,000. The same for any number of threads. Static, runs to its end in the
/// timing model given, with lanes beyond the resident SMs empty. A few dozen list schedulings at
/// most.
[[nodiscard]] WindowedTable windowed_table(const Problem& problem, const Timing& timing,
                                           const WindowOptions& options);

}  // namespace stagger::search
