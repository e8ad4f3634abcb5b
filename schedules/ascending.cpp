// The paper's FlashAttention-3 baseline: KV tile i of every head on SM i, Q tiles ascending.
//
//   full, n = 3, m = 1 (C compute, R reduce; time runs right)      every SM starts with Q tile 0,
//   SM 0  C0 R0 C1 R1 C2 R2                                        so SM i first waits for i
//   SM 1  C0 .. R0 C1 R1 C2 R2                                     reductions: (n-1)r of startup,
//   SM 2  C0 .. .. R0 C1 R1 C2 R2                                  then the SMs run in step.
//
// A causal mask keeps every SM waiting for KV tile 0's chain in each head: m n(c+r) + (n-1)r too,
// although there is half the work.
//
// Chains run in (head, KV tile) order on every SM and ranks ascend with the KV tile, so no wait
// points backwards: any mask, any number of SMs is free of deadlock.
// Source: DASH section 3.2, Figures 2 and 3. The paper's intermediate line for T_causal counts
// (n-1)r twice; its final one is exact.

#include "schedules/by_grid.hpp"
#include "schedules/cta_grid.hpp"
#include "schedules/live_ranks.hpp"
#include "schedules/schedule.hpp"
#include "schedules/shape.hpp"

namespace stagger::schedules::ascending {
namespace {

void build(const Problem& problem, const Parameters&, Table& table) {
  const ByGrid<LiveRanks> ranks_by_grid(problem, live_ranks);
  const ByGrid<IndexVector<KvTile, std::vector<QTile>>> chains_by_grid(problem, ascending_q);
  for (std::int32_t sm = 0; sm < problem.sms; ++sm) {
    const bool has_chains = sm < problem.kv_tiles();
    for (Head head{0}; has_chains && head.value < problem.heads; ++head) {
      const LiveRanks& ranks = ranks_by_grid.of(head);
      const auto& chains = chains_by_grid.of(head);
      for (KvTile kv{sm}; kv.value < problem.kv_tiles(); kv.value += problem.sms) {
        for (const QTile q : chains[kv]) {
          table.slots.push_back({{head, kv, q}, ranks.of(kv, q)});
        }
      }
    }
    table.end_lane();
  }
}

bool always(const Problem&, const Timing&) {
  return true;
}

Ticks full_makespan(const Problem& problem, const Timing& timing) {
  return 2 * (Ticks{problem.heads} * problem.q_tiles() * (timing.compute + timing.reduce) +
              (problem.kv_tiles() - 1) * timing.reduce);
}

constexpr Formula kFormulas[] = {
    {.name = "T_full",
     .text = "m n_q(c+r) + (n_kv-1)r",
     .source = "DASH §3.2",
     .domain = "full masks, all n, m, c, r",
     .shape = is_full,
     .in_domain = always,
     .twice_ticks = full_makespan},
    {.name = "T_causal",
     .text = "m n(c+r) + (n-1)r",
     .source = "DASH §3.2",
     .domain = "square causal masks, all n, m, c, r",
     .shape = is_square_causal,
     .in_domain = always,
     .twice_ticks = full_makespan},
};

}  // namespace

extern const Schedule kSchedule;
constinit const Schedule kSchedule{
    .name = "ascending",
    .summary = "KV tile i of every head on SM i mod S, Q ascending: the paper's FA3 baseline",
    .source = "DASH §3.2",
    .preconditions = "any mask",
    .dispatch = Dispatch::static_,
    .formulas = kFormulas,
    .build = build,
};

}  // namespace stagger::schedules::ascending
