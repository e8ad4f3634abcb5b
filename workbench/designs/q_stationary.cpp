// The mirror image of `ordered`: an SM keeps a Q tile and its dQ, goes through KV tiles, and adds
// to their dK and dV in turn. Nobody trains by it, as two tiles are added where one was; it helps
// where there are fewer KV tiles than SMs.
//
// It is the ordered problem with the sides exchanged and both turned round, which takes a causal
// mask to a causal mask. Heads of a group add to the same dK and dV: the Q tiles of all of them are
// one side of the mirrored problem, and the KV heads are its heads.
//
//   KV tile -> n_kv - 1 - its place      Q tile q of member a -> row a n_q + n_q - 1 - q
//   r_q = 2 (Bk / Bq) r

#include "core/checked.hpp"
#include "core/error.hpp"
#include "core/limits.hpp"
#include "workbench/designs/dependence.hpp"
#include "workbench/designs/mapped.hpp"
#include "workbench/designs/sizes.hpp"
#include "workbench/designs/units.hpp"

#include <numeric>

namespace stagger::designs {
namespace {

Problem mirrored(const Problem& problem) {
  const TileGrid& grid = problem.common_grid();
  const Checked rows = Checked(problem.group()) * grid.q_tiles();
  if (!rows.within(kMaxTiles) || !(rows * grid.kv_tiles()).within(kMaxGridTiles)) {
    throw Error(ErrorKind::limit, "q-stationary: the Q tiles of a group are too many");
  }
  std::vector<TileKind> kinds;
  kinds.reserve(at(rows.value() * grid.kv_tiles()));
  for (std::int32_t member = 0; member < problem.group(); ++member) {
    for (std::int32_t q = grid.q_tiles() - 1; q >= 0; --q) {
      for (std::int32_t kv = grid.kv_tiles() - 1; kv >= 0; --kv)
        kinds.push_back(grid.kind({kv}, {q}));
    }
  }
  return problem_of_grid({static_cast<std::int32_t>(rows.value()), grid.kv_tiles(), kinds},
                         problem.heads_kv, problem.sms, {});
}

Task exchanged(const Problem& problem, const Task& task) {
  const std::int32_t q_tiles = problem.q_tiles();
  return {{task.head.value * problem.group() + task.kv.value / q_tiles},
          {problem.kv_tiles() - 1 - task.q.value},
          {q_tiles - 1 - task.kv.value % q_tiles}};
}

/// Bytes of a task with the sides exchanged: what a chain keeps is a Q tile now.
TileBytes mirrored(const TileBytes& tile, const TileShape& shape) {
  return {.q = tile.kv,
          .dq = divide_up(2 * tile.dq * shape.kv, shape.q),
          .kv = tile.q,
          .gradient = divide_up(tile.gradient * shape.q, 2 * shape.kv)};
}

Units units_of(const Request& request) {
  const Timing& timing = request.model.timing;
  const TileShape& shape = request.problem.shape;
  const Ticks common = std::gcd(2 * shape.kv, shape.q);
  Units units{.timing = scaled(timing, shape.q / common), .per_tick = shape.q / common};
  const Checked reduce = Checked(timing.reduce) * (2 * shape.kv / common);
  if (!reduce.within(Ticks{1} << 62)) throw Error(ErrorKind::limit, "--reduce is too long");
  units.timing.reduce = reduce.value();
  units.timing.steps = 1;  // of a Q tile, which it keeps
  if (timing.memory) units.timing.memory->tile = mirrored(timing.memory->tile, shape);
  return units;
}

Plan plan_q_stationary(const Request& request) {
  const Problem& problem = request.problem;
  const Sizes sizes = sizes_of(request);
  const Problem mirror = mirrored(problem);
  const auto [timing, per_tick] = units_of(request);
  check_timing(timing, mirror);
  Played played = play_schedule(request.schedule, mirror, timing);
  const std::int64_t kv_tiles = std::int64_t{problem.heads_kv} * problem.kv_tiles();
  Plan plan{
      .note = "by " + played.schedule.text,
      .stages = {{.name = "dK, dV, dQ",
                  .problem = mirror,
                  .timing = timing,
                  .work = std::move(played.table)}},
      .units = per_tick,
      .flops = flops_of(problem, request.head_dim, kGemms),
      .workspace_bytes = 8 * sizes.y + 8 * kv_tiles,
      .hbm_bytes = least_bytes(sizes) + 16 * sizes.y,
      .passes = {d_pass(sizes),
                 {.name = "clear dK, dV", .bytes = 8 * sizes.y},
                 {.name = "convert dK, dV", .bytes = (8 + 2 * sizes.e) * sizes.y, .launches = 2}},
      .bits_depend_on = {bits::kTileQ, bits::kTileKv, bits::kRanks},
      .original = exchanged};
  dependence_of(played.schedule, mirror).add_to(plan.bits_depend_on);
  return plan;
}

}  // namespace

extern const Design kQStationary;
constinit const Design kQStationary{
    .name = "q-stationary",
    .summary = "ordered with the sides exchanged: dK and dV are summed in turn",
    .who = "nobody for training on NVIDIA",
    .plays_schedule = true,
    .plan = plan_q_stationary,
};

}  // namespace stagger::designs
