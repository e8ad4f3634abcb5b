#pragma once

#include "core/table.hpp"
#include "core/timing.hpp"

#include <cstdint>
#include <functional>

namespace stagger::search {

struct WindowOptions {
  std::int32_t heads = 16;  ///< of a window, >= 1: the heads whose dQ tiles are in flight together
  std::int64_t effort = 3;  ///< of the search for a window's table, as in SearchOptions
  std::uint64_t seed = 1;   ///< of that search
  std::function<bool()> stop;  ///< asked often; the best so far stays
};

/// A static table that works on a window of heads at a time: the best table that optimize() finds
/// for one window, repeated for all of them; the last window may be smaller and has a table of its
/// own. The longest lane of each window goes to the SM with the least load so far (of equals the
/// lower index), so that an SM that has had more in one window has less in the next. Q orders are
/// then chosen anew over all windows where that makes the table shorter. An SM begins a window only
/// after its chains of the one before, so that at most a few windows are in flight, and a window's
/// accumulations wait for that window alone: the table runs wherever the window's own does.
/// Throws what check_timing() throws. Costs what optimize() costs for one window or two, and list
/// scheduling and polishing of the whole.
[[nodiscard]] Table windowed(const Problem& problem, const Timing& timing,
                             const WindowOptions& options);

}  // namespace stagger::search
