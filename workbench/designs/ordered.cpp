// One semaphore for each dQ tile: whoever has the rank whose turn it is adds, the others wait.
//
// FlashAttention-3 and -4, DASH, cuDNN on sm90 from 9.25 on, and what this house is about. What
// follows is common to all tables; which table is the schedule's.

#include "workbench/designs/dependence.hpp"
#include "workbench/designs/sizes.hpp"

namespace stagger::designs {
namespace {

Plan plan_ordered(const Request& request) {
  const Problem& problem = request.problem;
  const Sizes sizes = sizes_of(request);
  Plan plan{
      .name = request.schedule->text,
      .stages = {{.name = "dQ, dK, dV",
                  .problem = problem,
                  .timing = request.model.timing,
                  .work = schedules::build(*request.schedule, problem, request.model.timing)}},
      .flops = flops_of(problem, request.head_dim, kGemms),
      .hbm_bytes = least_bytes(sizes),
      .passes = {d_pass(sizes)},
      .dq_targets = std::int64_t{problem.heads} * problem.q_tiles(),
      .bits_depend_on = {bits::kTileQ, bits::kTileKv, bits::kRanks}};
  plan.workspace_bytes = 4 * plan.dq_targets;
  add_dq_sums(sizes, plan);
  add_parts(problem, sizes, plan);
  dependence_of(*request.schedule, problem).add_to(plan.bits_depend_on);
  return plan;
}

}  // namespace

extern const Design kOrdered;
constinit const Design kOrdered{
    .name = "ordered",
    .summary = "a semaphore for each dQ tile, ranks by a schedule's table",
    .who = "FlashAttention-3 and -4, DASH, cuDNN on sm90 from 9.25 on, Stagger",
    .plays_schedule = true,
    .needs_schedule = true,
    .is_table = true,
    .runs = true,
    .plan = plan_ordered,
};

}  // namespace stagger::designs
