// An ordinary grid, as FlashAttention-3 launches full and local masks: one CTA per (head, KV tile),
// the KV tile counting fastest, Q tiles ascending.
//
// The kernel's lock values are absolute KV indices, and a CTA of a local mask bumps the locks of
// the Q tiles it skips when it ends. Ours are ranks among the live tiles, which need no such bumps.
// Source: FlashAttention-3, hopper/flash_bwd_launch_template.h:96-100 (SingleTileScheduler).

#include "schedules/cta_grid.hpp"
#include "schedules/schedule.hpp"

namespace stagger::schedules::grid_ascending {
namespace {

void build(const Problem& problem, const Parameters& parameters, Table& table) {
  launch_ctas(problem, Launch(parameters), ascending_kv, ascending_q, table);
}

constexpr Parameter kParameters[] = {kLaunchOrder};

}  // namespace

extern const Schedule kSchedule;
constinit const Schedule kSchedule{
    .name = "grid-ascending",
    .summary = "an ordinary grid, KV tile fastest, Q ascending (FA3 full and local)",
    .source = "FA3 SingleTileScheduler",
    .preconditions = "any mask",
    .dispatch = Dispatch::in_order,
    .parameters = kParameters,
    .build = build,
};

}  // namespace stagger::schedules::grid_ascending
