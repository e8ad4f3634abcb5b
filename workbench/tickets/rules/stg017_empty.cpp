#include "workbench/tickets/rules/cause.hpp"

namespace stagger::tickets {

extern const Rule kStg017;

namespace {

constexpr Example kStg017Examples[] = {
    {.notation = "P0: q0@0\nP1: (q1@1+0)", .outcome = "hangs"},
    {.notation = "P0: q0@0\nP1: (q0@1+0)", .outcome = "ends"},
};

void check_stg017(const Facts& facts, Findings& findings) {
  report_cause(
      kStg017, Cause::empty,
      "Nobody reduces there: an empty sequence has no programs, and nobody may wait for it", facts,
      findings);
}

}  // namespace

const Rule kStg017{
    .id = "STG017",
    .title = "nobody waits for a sequence that is empty",
    .level = Level::error,
    .what =
        "A sequence of no tokens has no programs, so nobody advances its semaphores. A "
        "program that waits for them, to finish or to hand over, waits for ever. Leave empty "
        "sequences out of what is launched and of what is waited for.",
    .seen = "FlashAttention: https://github.com/Dao-AILab/flash-attention/issues/1254",
    .examples = kStg017Examples,
    .check = check_stg017};

}  // namespace stagger::tickets
