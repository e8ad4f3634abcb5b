// dS goes to memory, and dQ = dS K is a GEMM like any other, after a kernel boundary: what it costs
// is a workspace of seq_q x seq_kv for each head, written and read once.
//
//   dK, dV, dS  (head, KV tile): 4 GEMMs a tile, and the tile of dS stored
//   dQ          (head, Q tile): 1 GEMM a tile, no faster than dS is stored and loaded
//
// cuDNN's dP workspace, which deterministic runs on Hopper forced until 9.25, and where fp32 tiles
// of dQ no longer fit (head_dim above 256). A kernel with a limited workspace works in chunks,
// whose number then moves dQ's last bits.
// Source: cudnn-frontend scaled_dot_product_flash_attention.h:1440-1487.

#include "workbench/designs/lanes.hpp"
#include "workbench/designs/sizes.hpp"
#include "workbench/designs/units.hpp"

namespace stagger::designs {
namespace {

/// Bytes of dS, written and read: the part of all pairs that is the live tiles' of all tiles.
std::int64_t stored_and_loaded(const Problem& problem, const Sizes& sizes) {
  const std::int64_t tiles = std::int64_t{problem.kv_tiles()} * problem.q_tiles();
  if (tiles == 0) return 0;
  const std::int64_t of_head =
      counted_up(Checked(2 * sizes.e) * problem.lengths.q * problem.lengths.kv);
  const std::int64_t live = problem.common_grid().live_tiles();
  // Whole multiples first, as the product may not fit.
  return counted_up(Checked(problem.heads) *
                    (Checked(of_head / tiles) * live + of_head % tiles * live / tiles));
}

Plan plan_ds_store(const Request& request) {
  // A chain goes through all heads that share its K and V.
  const Problem problem =
      with_span(request.problem, request.problem.group(), request.problem.combine);
  const Sizes sizes = sizes_of(request);
  const auto [timing, per_tick] = gemm_units(request.model.timing);
  const Checked pairs = Checked(problem.heads) * problem.lengths.q * problem.lengths.kv;
  const std::int64_t moved = stored_and_loaded(problem, sizes);
  return {
      .stages = {{.name = "dK, dV, dS",
                  .problem = problem,
                  .timing = timing,
                  .work = a_lane_each(problem, Keeps::kv, kDkvGemms, problem.group())},
                 {.name = "dQ = dS K",
                  .problem = problem,
                  .timing = timing,
                  .work = a_lane_each(problem, Keeps::q, kStoredGemms, 1, Launched::longest_first),
                  .bytes = moved}},
      .units = per_tick,
      .flops = flops_of(problem, request.head_dim, kGemms),
      .workspace_bytes = counted_up(pairs * sizes.e),
      .hbm_bytes = counted_up(Checked(moved) + least_bytes(sizes)),
      .passes = {d_pass(sizes)},
      .bits_depend_on = {bits::kTileQ, bits::kTileKv, bits::kGemm, bits::kWorkspace}};
}

}  // namespace

extern const Design kDsStore;
constinit const Design kDsStore{
    .name = "ds-store",
    .summary = "dS is stored, and dQ a GEMM of its own",
    .who = "cuDNN's dP workspace, FlashInfer's Cake",
    .by_memory = true,
    .plan = plan_ds_store,
};

}  // namespace stagger::designs
