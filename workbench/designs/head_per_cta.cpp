// One CTA for each head, which loads, adds to and stores dQ as it goes: nobody else touches it, so
// that program order is the order. As many lanes as heads, each as long as a head's tasks.
//
//   KV 0: q 0 1 2 3 | KV 1: q 1 2 3 | KV 2: q 2 3 | KV 3: q 3        rank = KV tiles before
//
// FlashAttention's Triton backward with SEQUENCE_PARALLEL=False. Heads that share a chain share a
// CTA. The table is a table like any other, and legal: it can be verified, exported and run.

#include "workbench/designs/sizes.hpp"

namespace stagger::designs {
namespace {

Table table_of(const Problem& problem) {
  Table table{.name = "head-per-cta", .problem = problem, .dispatch = Dispatch::in_order};
  for (Part part{0}; part.value < problem.parts(); ++part) {
    IndexVector<QTile, std::int32_t> ranks(problem.q_tiles(), 0);
    for (KvTile kv{0}; kv.value < problem.kv_tiles(); ++kv) {
      for (const QTile q : problem.grid_of(part).live_q(kv)) {
        for (std::int32_t member = 0; member < problem.span; ++member) {
          table.slots.push_back({{{part.value * problem.span + member}, kv, q}, ranks[q]});
        }
        ++ranks[q];
      }
    }
    table.end_lane();
  }
  return table;
}

Plan plan_head_per_cta(const Request& request) {
  const Problem& problem = request.problem;
  const Sizes sizes = sizes_of(request);
  Plan plan{.stages = {{.name = "dQ, dK, dV",
                        .problem = problem,
                        .timing = request.model.timing,
                        .work = table_of(problem)}},
            .flops = flops_of(problem, request.head_dim, kGemms),
            .hbm_bytes = least_bytes(sizes),
            .passes = {d_pass(sizes)},
            .dq_targets = std::int64_t{problem.heads} * problem.q_tiles(),
            .bits_depend_on = {bits::kTileQ, bits::kTileKv}};
  add_dq_sums(sizes, plan);
  add_parts(problem, sizes, plan);
  return plan;
}

}  // namespace

extern const Design kHeadPerCta;
constinit const Design kHeadPerCta{
    .name = "head-per-cta",
    .summary = "a CTA has a whole head: it adds to dQ in program order, without a semaphore",
    .who = "FlashAttention's Triton kernel with SEQUENCE_PARALLEL=False",
    .is_table = true,
    .runs = true,
    .plan = plan_head_per_cta,
};

}  // namespace stagger::designs
