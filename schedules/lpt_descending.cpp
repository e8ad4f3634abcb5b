// The paper's Descending as its code runs it: CTAs launched longest chain first, `swizzle` heads
// interleaved, Q tiles descending, ranks in launch order.
//
// The SM that frees first takes the next CTA, the longest chain of the next head: the greedy form
// of descending.cpp's mirroring, and equal to it on square causal masks with an even number of
// heads.
// Source: DASH section 3.3; FlashAttention-3, hopper/tile_scheduler.hpp:385-409.

#include "schedules/cta_grid.hpp"
#include "schedules/reversed_makespan.hpp"
#include "schedules/schedule.hpp"

namespace stagger::schedules::lpt_descending {
namespace {

void build(const Problem& problem, const Parameters& parameters, Table& table) {
  launch_ctas(problem, Launch(parameters), longest_first_kv, descending_q, table);
}

constexpr Parameter kParameters[] = {kSwizzle, kLaunchOrder};
constexpr Formula kFormulas[] = {kReversedMakespan};

}  // namespace

extern const Schedule kSchedule;
constinit const Schedule kSchedule{
    .name = "lpt-descending",
    .summary =
        "in-order dispatch, longest chain first, Q descending: the paper's Descending in code",
    .source = "DASH §3.3, FA3 SingleTileBwdLPTScheduler",
    .preconditions = "any mask; made for causal ones",
    .dispatch = Dispatch::in_order,
    .parameters = kParameters,
    .formulas = kFormulas,
    .build = build,
};

}  // namespace stagger::schedules::lpt_descending
