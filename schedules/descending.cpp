// Descending Q-tile iteration: Q tiles from the last to the first, and the KV tiles mirrored on
// every other head.
//
//   causal, n = 3, m = 2 (digits are Q tiles of head 0, letters a b c Q tiles 0 1 2 of head 1)
//   SM 0  KV 0: 2 1 0   then KV 2: c
//   SM 1  KV 1:  2 1    then KV 1: c b          SM i frees after n-i tasks and takes the chain of
//   SM 2  KV 2:   2     then KV 0: c b a        i+1 tasks: two heads make every SM equally long.
//
// The paper's text lets "the SM that frees first" take the next head; mirroring is that rule as a
// static table. With KV tile i fixed on SM i (as Figure 3 draws) descending would gain nothing:
// m n(c+r).
//
// On an SM the chains of a head run in ascending KV order and ranks ascend with the KV tile, so no
// wait points backwards, with fewer SMs than KV tiles too.
// Source: DASH section 3.3, Figure 4.

#include "schedules/by_grid.hpp"
#include "schedules/cta_grid.hpp"
#include "schedules/live_ranks.hpp"
#include "schedules/reversed_makespan.hpp"
#include "schedules/schedule.hpp"

namespace stagger::schedules::descending {
namespace {

/// The lowest KV tile of an SM in a head; the others follow at a stride of S. On odd heads KV tile
/// i is on SM (n-1-i) mod S instead of i mod S.
std::int32_t first_kv(const Problem& problem, Head head, std::int32_t sm) {
  if (head.value % 2 == 0) return sm;
  const std::int32_t mirrored = (problem.kv_tiles() - 1 - sm) % problem.sms;
  return mirrored < 0 ? mirrored + problem.sms : mirrored;
}

void build(const Problem& problem, const Parameters&, Table& table) {
  const ByGrid<LiveRanks> ranks_by_grid(problem, live_ranks);
  const ByGrid<IndexVector<KvTile, std::vector<QTile>>> chains_by_grid(problem, descending_q);
  for (std::int32_t sm = 0; sm < problem.sms; ++sm) {
    const bool has_chains = sm < problem.kv_tiles();
    for (Head head{0}; has_chains && head.value < problem.heads; ++head) {
      const LiveRanks& ranks = ranks_by_grid.of(head);
      const auto& chains = chains_by_grid.of(head);
      for (KvTile kv{first_kv(problem, head, sm)}; kv.value < problem.kv_tiles();
           kv.value += problem.sms) {
        for (const QTile q : chains[kv]) {
          table.slots.push_back({{head, kv, q}, ranks.of(kv, q)});
        }
      }
    }
    table.end_lane();
  }
}

constexpr Formula kFormulas[] = {kReversedMakespan};

}  // namespace

extern const Schedule kSchedule;
constinit const Schedule kSchedule{
    .name = "descending",
    .summary = "Q descending, KV tiles mirrored on every other head",
    .source = "DASH §3.3",
    .preconditions = "any mask; made for causal ones",
    .dispatch = Dispatch::static_,
    .formulas = kFormulas,
    .build = build,
};

}  // namespace stagger::schedules::descending
