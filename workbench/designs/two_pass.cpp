// Two owners instead of one order: a pass that keeps KV tiles makes dK and dV, another that keeps Q
// tiles makes dQ. Both compute S and dP, so that two GEMMs of five are done twice.
//
//   one launch    program p: KV tile p, 4 GEMMs a tile, then Q tile p, 3 GEMMs a tile
//   two launches  all KV tiles, then all Q tiles, each longest chain first
//
// Triton's tutorial launches once and takes the diagonal first, then the rest upwards; PyTorch's
// FlexAttention in effect twice, and heads that share K and V stay in one chain. What DASH calls a
// second K/V read is two more GEMMs: 1.4 times the arithmetic.
// Source: triton python/tutorials/06-fused-attention.py, _attn_bwd.

#include "workbench/designs/lanes.hpp"
#include "workbench/designs/sizes.hpp"
#include "workbench/designs/units.hpp"

#include <algorithm>

namespace stagger::designs {
namespace {

constexpr schedules::Parameter kLaunches = {"launches", "of the two passes: 1 or 2", 1, 1, 2};
constexpr schedules::Parameter kTwoPassParameters[] = {kLaunches};

bool launches_once(const Request& request) {
  return request.parameters.at(kLaunches.name) == 1;
}

std::optional<std::string> unsupported(const Request& request) {
  if (!launches_once(request) || request.problem.group() == 1) return std::nullopt;
  return "in one launch each program has a head's own K and V; heads that share them need "
         "launches=2";
}

/// A program for each place: the KV tile there, then the Q tile there.
FreeLanes programs(const Problem& problem) {
  const TileGrid& grid = problem.common_grid();
  FreeLanes lanes;
  for (std::int32_t head = 0; head < problem.heads; ++head) {
    for (std::int32_t place = 0; place < std::max(grid.kv_tiles(), grid.q_tiles()); ++place) {
      if (place < grid.kv_tiles() && grid.chain_length({place}) > 0) {
        lanes.chains.push_back({.head = {head}, .tile = place, .gemms = kDkvGemms});
      }
      if (place < grid.q_tiles() && grid.contributions({place}) > 0) {
        lanes.chains.push_back(
            {.head = {head}, .tile = place, .keeps = Keeps::q, .gemms = kDqGemms});
      }
      lanes.end_lane();
    }
  }
  return lanes;
}

std::vector<Stage> stages_of(const Request& request, const Timing& timing, const Sizes& sizes) {
  // A pass that keeps K and V goes through all heads that share them.
  const Problem problem =
      with_span(request.problem, request.problem.group(), request.problem.combine);
  const std::int64_t read = sizes.e * (2 * sizes.x + 2 * sizes.y);
  const auto stage = [&](const char* name, FreeLanes lanes, std::int64_t bytes) {
    lanes.kv_order = lanes.q_order = TileOrder::partial_first;
    return Stage{.name = name,
                 .problem = problem,
                 .timing = timing,
                 .work = std::move(lanes),
                 .bytes = bytes};
  };
  if (launches_once(request)) return {stage("dK, dV and dQ", programs(problem), 2 * read)};
  return {
      stage("dK, dV",
            a_lane_each(problem, Keeps::kv, kDkvGemms, problem.group(), Launched::longest_first),
            read),
      stage("dQ", a_lane_each(problem, Keeps::q, kDqGemms, 1, Launched::longest_first), read)};
}

Plan plan_two_pass(const Request& request) {
  const Sizes sizes = sizes_of(request);
  const auto [timing, per_tick] = gemm_units(request.model.timing);
  return {.stages = stages_of(request, timing, sizes),
          .units = per_tick,
          .flops = flops_of(request.problem, request.head_dim, kDkvGemms + kDqGemms),
          .hbm_bytes = least_bytes(sizes) + sizes.e * (2 * sizes.x + 2 * sizes.y),
          .passes = {d_pass(sizes)},
          .bits_depend_on = {bits::kTileQ, bits::kTileKv}};
}

}  // namespace

extern const Design kTwoPass;
constinit const Design kTwoPass{
    .name = "two-pass",
    .summary = "dK and dV, then dQ, each summed by its owner: S and dP are computed twice",
    .who = "Triton's tutorial (one launch), PyTorch's FlexAttention (two)",
    .runs = true,
    .parameters = kTwoPassParameters,
    .unsupported = unsupported,
    .plan = plan_two_pass,
};

}  // namespace stagger::designs
