#pragma once

#include "core/table.hpp"
#include "core/timing.hpp"
#include "schedules/schedule.hpp"

namespace stagger::schedules {

/// Puts the heads of every part in the place of its one head: a task becomes its heads', with the
/// ranks it has. q-major takes the heads of a Q tile one after the other, which keeps a table free
/// of collisions and of deadlocks (README, "Lifting"); head-major takes the runs of a chain head
/// by head. `parts` is a table of problem_of_parts(problem). O(tasks).
[[nodiscard]] Table lift(Table parts, const Problem& problem, HeadOrder order,
                         bool (*begins_run)(const Table& parts, std::int64_t slot) = nullptr);

/// The timing of a task that stands for those of `span` heads one after the other: with q-major
/// order a table of parts takes as long in it as what it is lifted to takes in `timing`, if no wait
/// falls between the heads.
[[nodiscard]] Timing timing_of_parts(Timing timing, std::int32_t span);

}  // namespace stagger::schedules
