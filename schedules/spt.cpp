// Shortest first, as FlashAttention-3 runs causal masks since 2025-09: KV tiles launched from the
// last to the first, Q tiles ascending, so that each Q tile is accumulated from the diagonal
// outwards and every CTA starts on a Q tile of its own.
//
//   causal, n = 4: CTA 0 is KV 3, CTA 3 is KV 0        no SM waits for its first reduction
//   CTA 0  3          CTA 2  1 2 3
//   CTA 1  2 3        CTA 3  0 1 2 3
//
// The kernel's lock value is n_max(q) - 1 - n, which is the launch order among the live tiles
// wherever the live KV tiles of a Q tile are contiguous; ours counts the live ones.
// Source: FlashAttention PR 1893; hopper/flash_bwd_launch_template.h:96-100.

#include "schedules/cta_grid.hpp"
#include "schedules/schedule.hpp"

namespace stagger::schedules::spt {
namespace {

void build(const Problem& problem, const Parameters& parameters, Table& table) {
  launch_ctas(problem, Launch(parameters), descending_kv, ascending_q, table);
}

constexpr Parameter kParameters[] = {kSwizzle, kLaunchOrder};

}  // namespace

extern const Schedule kSchedule;
constinit const Schedule kSchedule{
    .name = "spt",
    .summary = "in-order dispatch, KV descending (shortest first), Q ascending: FA3 since 2025-09",
    .source = "FA3 PR 1893",
    .preconditions = "any mask; made for causal ones",
    .dispatch = Dispatch::in_order,
    .parameters = kParameters,
    .build = build,
};

}  // namespace stagger::schedules::spt
