#pragma once

#include "core/timeline.hpp"
#include "workbench/designs/plan.hpp"

#include <vector>

namespace stagger::designs {

/// A chain's tasks, in its order: those of one head after the other.
[[nodiscard]] std::vector<Task> tasks_of(const Chain& chain, const FreeLanes& lanes,
                                         const Problem& problem);

/// How long each lane takes from its launch, by lane: nobody waits, so that no lane's time depends
/// on another's. The rule is that of sim/lane_clock.hpp with every turn at the hand-over.
[[nodiscard]] std::vector<Ticks> lane_durations(const Stage& stage);

/// When everything has ended, if lanes start in their order on the SMs that free first.
/// O(lanes log sms).
[[nodiscard]] Ticks in_order_makespan(const std::vector<Ticks>& durations, std::int32_t sms);

/// SMs that a stage runs on.
[[nodiscard]] std::int32_t sms_of(const Stage& stage);

/// Adds what a stage's lanes do from `begin` on. The timeline's order is the caller's to mend.
void add_intervals(const Stage& stage, Ticks begin, Timeline& timeline);

}  // namespace stagger::designs
