// FlashAttention-4's block-sparse order: a CTA visits its partial tiles first, then its full ones,
// each ascending; ranks are counted over the live tiles in launch order (`dq_write_order`), with
// KV tiles ascending, or descending with spt=1.
//
// Safe for any mask (theorem A), at the price of speed: partial tiles sit at both ends of a
// window, so neighbours visit the same Q tiles at different times.
// Source: FlashAttention-4, flash_attn/cute/block_sparsity.py:80-148.

#include "schedules/cta_grid.hpp"
#include "schedules/schedule.hpp"

#include <algorithm>

namespace stagger::schedules::fa4_sparse {
namespace {

IndexVector<KvTile, std::vector<QTile>> partial_first(const TileGrid& grid) {
  auto chains = ascending_q(grid);
  for (KvTile kv{0}; kv.value < grid.kv_tiles(); ++kv) {
    auto& chain = chains[kv];
    std::stable_partition(chain.begin(), chain.end(),
                          [&](QTile q) { return grid.kind(kv, q) == TileKind::partial; });
  }
  return chains;
}

void build(const Problem& problem, const Parameters& parameters, Table& table) {
  const bool spt = parameters.at("spt") == 1;
  launch_ctas(problem, Launch(parameters), spt ? descending_kv : ascending_kv, partial_first,
              table);
}

constexpr Parameter kParameters[] = {
    {"spt", "1 launches KV tiles descending, as the kernel's spt flag", 0, 0, 1},
    kSwizzle,
    kLaunchOrder};

}  // namespace

extern const Schedule kSchedule;
constinit const Schedule kSchedule{
    .name = "fa4-sparse",
    .summary = "in-order dispatch, partial tiles before full ones, ranks over live tiles",
    .source = "FA4 dq_write_order",
    .preconditions = "any mask; made for block-sparse ones",
    .dispatch = Dispatch::in_order,
    .parameters = kParameters,
    .build = build,
};

}  // namespace stagger::schedules::fa4_sparse
