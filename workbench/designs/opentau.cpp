// Two passes over small tiles, dK and dV of each head in fp32, and a last pass that adds those of a
// group's heads upwards: a kernel boundary instead of a semaphore.
//
//   dQ      (head, Q tile): KV tiles upwards       3 GEMMs a tile
//   dK, dV  (head, KV tile): Q tiles upwards       4 GEMMs a tile, stored by head
//   group   (KV head, KV tile): heads upwards
//
// OpenTau's tiles are 16 x 16, one for each warp. Its mask is k_block <= q_block, and where ids
// decrease along the queries its skip of Q tiles looks at the last query of a tile only: tiles
// whose earlier queries attend are left out of dK and dV, without a crash. So a mask whose ids
// decrease is refused here (core/mask.cpp), and not skipped through. Source: TensorAuto/OpenTau,
// flash_blockmask.cu:724, 877, 956, 1085, 1295.

#include "workbench/designs/opentau.hpp"

#include "core/error.hpp"
#include "core/tiling.hpp"
#include "workbench/designs/lanes.hpp"
#include "workbench/designs/sizes.hpp"
#include "workbench/designs/units.hpp"

namespace stagger::designs {
namespace {

constexpr schedules::Parameter kTile = {
    "tile", "tokens of a tile's side, 16 in OpenTau; 0: the problem's tiles", 0, 0, 4096};
constexpr schedules::Parameter kOpentauParameters[] = {kTile};

std::optional<std::string> needs_a_token_mask(const Request& request) {
  if (request.parameters.at(kTile.name) == 0) return std::nullopt;
  if (!is_of_tiles(request.problem.mask)) return std::nullopt;
  return "tile= cuts a mask of tokens anew; this one is of tiles";
}

/// The problem in tiles of so many tokens a side, each head for itself.
Problem tiled(const Request& request) {
  Problem problem = with_span(request.problem, 1, Combine::partials);
  const std::int64_t side = request.parameters.at(kTile.name);
  if (side == 0) return problem;
  problem.shape = {.q = side, .kv = side};
  problem.grids = tile(problem.mask, problem.lengths, problem.shape);
  if (std::int64_t{problem.heads} * (problem.kv_tiles() + problem.q_tiles()) >
      (std::int64_t{1} << 25)) {
    throw Error(ErrorKind::limit, "more than 2^25 chains");
  }
  return problem;
}

/// What a tile's compute phase is of the problem's: as its area.
Units units_of(const Request& request, const Problem& problem) {
  const TileShape& shape = request.problem.shape;
  constexpr Ticks kMost = Ticks{1} << 30;
  const Checked area = Checked(problem.shape.q) * problem.shape.kv;
  const Checked given = Checked(shape.q) * shape.kv;
  if (!area.within(kMost) || !given.within(kMost)) {
    throw Error(ErrorKind::limit, "tiles of more than 2^30 pairs of tokens");
  }
  return gemm_units(request.model.timing, area.value(), given.value());
}

Plan plan_opentau(const Request& request) {
  const Problem problem = tiled(request);
  const Sizes sizes = sizes_of(request);
  const auto [timing, per_tick] = units_of(request, problem);
  const std::int64_t read = sizes.e * (2 * sizes.x + 2 * sizes.y);
  Plan plan{
      .note = "tiles of " + std::to_string(problem.shape.kv) + " x " +
              std::to_string(problem.shape.q) + " tokens",
      .stages = {{.name = "dQ",
                  .problem = problem,
                  .timing = timing,
                  .work = a_lane_each(problem, Keeps::q, kDqGemms),
                  .bytes = read},
                 {.name = "dK, dV",
                  .problem = problem,
                  .timing = timing,
                  .work = a_lane_each(problem, Keeps::kv, kDkvGemms),
                  .bytes = read + 8 * sizes.yh}},
      .units = per_tick,
      .flops = flops_of(problem, request.head_dim, kDkvGemms + kDqGemms),
      .workspace_bytes = 8 * sizes.yh,
      .hbm_bytes = least_bytes(sizes) + read + 16 * sizes.yh,
      .passes = {d_pass(sizes),
                 {.name = "add heads' dK, dV", .bytes = 8 * sizes.yh + 2 * sizes.e * sizes.y}}};
  // Upwards over queries it is the same however they are cut; dQ's partials are a KV tile's each.
  if (request.parameters.at(kTile.name) == 0) plan.bits_depend_on = {bits::kTileKv};
  return plan;
}

}  // namespace

std::int64_t opentau_dkv_shared_bytes(std::int64_t head_dim, std::int64_t warps) {
  const std::int64_t of_warp = 32 * head_dim + 512;
  return 2 * (warps * of_warp + 64 * head_dim) + 4 * (warps * of_warp + 64) +
         4 * (16 * warps + 32) + (16 * warps + 32);
}

std::int64_t opentau_dq_shared_bytes(std::int64_t head_dim, std::int64_t warps) {
  return 2 * (warps * (32 * head_dim + 256) + 32 * head_dim) + 4 * (warps * (16 * head_dim + 544)) +
         4 * (16 * warps + 16) + (16 * warps + 16);
}

extern const Design kOpenTau;
constinit const Design kOpenTau{
    .name = "opentau",
    .summary = "two passes, dK and dV by head in fp32, added up in a pass",
    .who = "OpenTau",
    .runs = true,
    .head_sums = HeadSums::fp32,
    .parameters = kOpentauParameters,
    .unsupported = needs_a_token_mask,
    .plan = plan_opentau,
};

}  // namespace stagger::designs
