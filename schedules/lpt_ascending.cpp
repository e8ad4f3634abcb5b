// The paper's causal baseline as its code runs it: CTAs launched longest chain first, `swizzle`
// heads interleaved, Q tiles ascending, ranks in launch order.
//
// For a causal mask the longest chain first is KV tile 0 first and the rank is the KV index, as in
// the code; for other masks we sort by chain length, which the code does not.
// Source: FlashAttention-3, hopper/tile_scheduler.hpp:385-409 (SingleTileBwdLPTScheduler, SPT off);
// never shipped upstream in deterministic mode with these lock values.

#include "schedules/cta_grid.hpp"
#include "schedules/schedule.hpp"

namespace stagger::schedules::lpt_ascending {
namespace {

void build(const Problem& problem, const Parameters& parameters, Table& table) {
  launch_ctas(problem, Launch(parameters), longest_first_kv, ascending_q, table);
}

constexpr Parameter kParameters[] = {kSwizzle, kLaunchOrder};

}  // namespace

extern const Schedule kSchedule;
constinit const Schedule kSchedule{
    .name = "lpt-ascending",
    .summary = "in-order dispatch, longest chain first, Q ascending: the paper's baseline in code",
    .source = "FA3 SingleTileBwdLPTScheduler",
    .preconditions = "any mask",
    .dispatch = Dispatch::in_order,
    .parameters = kParameters,
    .build = build,
};

}  // namespace stagger::schedules::lpt_ascending
