#pragma once

#include "core/timeline.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace stagger::sim {

/// Several timelines as one, to be drawn: each SM has a row for each of them, the predicted ones
/// (without a device) above the measured ones, on one time axis. Those that are not told apart by
/// where they are from are named by what their titles say up to a colon, too. The title is the
/// first's, with all that titles say up to there where the rest is the same; the lower bound the
/// first there is, makespan and SMs the largest.
///
/// If some are in ns and some in ticks, a tick lasts `tick_ns`; ticks and parts of them are brought
/// to parts that they have in common. Throws Error{usage} if `tick_ns` is missing then,
/// Error{limit} if a converted time is above 2^62 or a picture would have too many rows. Requires
/// at least one, drawable, none an overlay. O(intervals log intervals).
[[nodiscard]] Timeline overlay(std::vector<Timeline> timelines,
                               std::optional<std::int64_t> tick_ns);

}  // namespace stagger::sim
