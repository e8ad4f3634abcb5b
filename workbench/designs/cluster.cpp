// Clusters of two CTAs: KV tiles in pairs, whose dQ is summed inside the cluster and is one
// contribution. Half as many SMs, so to speak, with half as many KV tiles; each CTA adds half of
// the rows.
//
//   n' = ceil(n / 2) pairs on floor(S / 2) clusters    task c + x    reduction r / 2    ranks by
//   pair
//
// x is the exchange through distributed shared memory. A pair computes in step: where one of its
// tiles is dead the other's CTA still waits. FlashAttention-4 on sm100 has a flag for each CTA of a
// cluster, hence semaphores of cluster_size.
// Source: flash_attn/cute/interface.py:2200.

#include "core/checked.hpp"
#include "core/error.hpp"
#include "core/text.hpp"
#include "workbench/designs/dependence.hpp"
#include "workbench/designs/mapped.hpp"
#include "workbench/designs/sizes.hpp"
#include "workbench/designs/units.hpp"

#include <algorithm>

namespace stagger::designs {
namespace {

constexpr schedules::Parameter kExchange = {
    "exchange", "x: ticks of a task for the exchange within a pair", 0, 0, 1'000'000'000};
constexpr schedules::Parameter kClusterParameters[] = {kExchange};

std::optional<std::string> cannot_pair(const Request& request) {
  if (request.problem.sms >= 2) return std::nullopt;
  return "a cluster of two CTAs needs two SMs";
}

/// The kind that takes longer, of what is live.
TileKind dearer(TileKind one, TileKind other, const Timing& timing) {
  if (one == TileKind::empty || other == TileKind::empty) {
    return one == TileKind::empty ? other : one;
  }
  return timing.compute_of(other) > timing.compute_of(one) ? other : one;
}

/// KV tiles in pairs: live where one of them is, as the one of them that takes longer.
TileGrid paired(const TileGrid& grid, const Timing& timing) {
  const auto pairs = static_cast<std::int32_t>(divide_up(grid.kv_tiles(), 2));
  std::vector<TileKind> kinds;
  for (std::int32_t pair = 0; pair < pairs; ++pair) {
    const KvTile first{2 * pair};
    const KvTile second{std::min(2 * pair + 1, grid.kv_tiles() - 1)};
    for (QTile q{0}; q.value < grid.q_tiles(); ++q)
      kinds.push_back(dearer(grid.kind(first, q), grid.kind(second, q), timing));
  }
  return {pairs, grid.q_tiles(), std::move(kinds)};
}

Timing timing_of(const Request& request) {
  Timing timing = scaled(request.model.timing, 2);
  const Ticks exchange = 2 * request.parameters.at(kExchange.name);
  timing.compute += exchange;
  if (timing.compute_partial) *timing.compute_partial += exchange;
  timing.reduce = request.model.timing.reduce;
  if (timing.residency > 1) timing.residency /= 2;
  if (timing.memory) {
    timing.memory->tile.kv *= 2;
    timing.memory->tile.gradient *= 2;
  }
  return timing;
}

Task first_of_pair(const Problem&, const Task& task) {
  return {task.head, {2 * task.kv.value}, task.q};
}

Plan plan_cluster(const Request& request) {
  const Problem& problem = request.problem;
  const Sizes sizes = sizes_of(request);
  const Timing timing = timing_of(request);
  const Problem pairs = problem_of_grid(paired(problem.common_grid(), timing), problem.heads,
                                        problem.sms / 2, problem.grouping());
  check_timing(timing, pairs);
  Played played = play_schedule(request.schedule, pairs, timing);
  Plan plan{.note = "by " + played.schedule.text + ", " + counted(pairs.sms, "cluster"),
            .stages = {{.name = "dQ, dK, dV",
                        .problem = pairs,
                        .timing = timing,
                        .work = std::move(played.table)}},
            .units = 2,
            .flops = flops_of(problem, request.head_dim, kGemms),
            .hbm_bytes = least_bytes(sizes),
            .passes = {d_pass(sizes)},
            .dq_targets = std::int64_t{problem.heads} * problem.q_tiles(),
            .bits_depend_on = {bits::kTileQ, bits::kTileKv, bits::kRanks, bits::kPairs},
            .original = first_of_pair};
  plan.workspace_bytes = 4 * plan.dq_targets;
  add_dq_sums(sizes, plan);
  add_parts(problem, sizes, plan);
  dependence_of(played.schedule, pairs).add_to(plan.bits_depend_on);
  return plan;
}

}  // namespace

extern const Design kCluster;
constinit const Design kCluster{
    .name = "cluster",
    .summary = "KV tiles in pairs on clusters of two CTAs, one contribution a pair",
    .who = "FlashAttention-4 on sm100",
    .plays_schedule = true,
    .parameters = kClusterParameters,
    .unsupported = cannot_pair,
    .plan = plan_cluster,
};

}  // namespace stagger::designs
