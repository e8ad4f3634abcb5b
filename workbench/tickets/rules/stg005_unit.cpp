#include "workbench/tickets/rules/cause.hpp"

namespace stagger::tickets {

extern const Rule kStg005;

namespace {

constexpr Example kStg005Examples[] = {
    {.notation = "P0: q0@2\nP1: q0@3", .outcome = "hangs: 4 CTAs are counted, 2 clusters add"},
    {.notation = "P0: q0@0\nP1: q0@1", .outcome = "ends"},
};

void check_stg005(const Facts& facts, Findings& findings) {
  report_cause(
      kStg005, Cause::unit,
      "The values count CTAs and the additions clusters, or the other way round: count what "
      "adds",
      facts, findings);
}

}  // namespace

const Rule kStg005{
    .id = "STG005",
    .title = "lock values and additions count the same unit",
    .level = Level::error,
    .what =
        "With clusters of CTAs, one of a cluster's CTAs advances the semaphore for all. A "
        "lock value that counts CTAs then waits for additions that never come, and one that "
        "counts clusters where every CTA adds is passed by. Count what adds.",
    .seen =
        "Paddle: https://github.com/PaddlePaddle/flash-attention/pull/140\n"
        "FlashAttention-4, two CTAs: https://github.com/Dao-AILab/flash-attention/pull/2549",
    .examples = kStg005Examples,
    .check = check_stg005};

}  // namespace stagger::tickets
