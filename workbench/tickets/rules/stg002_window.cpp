#include "workbench/tickets/rules/cause.hpp"

namespace stagger::tickets {

extern const Rule kStg002;

namespace {

constexpr Example kStg002Examples[] = {
    {.notation = "P0: q0@0\nP1: q0@1 q1@1", .outcome = "hangs on q1"},
    {.notation = "P0: q0@0 q1+\nP1: q0@1 q1@1", .outcome = "ends"},
    {.notation = "P0: q0@0\nP1: q0@1 q1@0", .outcome = "ends"},
};

void check_stg002(const Facts& facts, Findings& findings) {
  report_cause(kStg002, Cause::window,
               "The values are numbers of KV tiles, and those whose window or document ends before "
               "this Q tile never advance its semaphore: advance it there, or count ranks among "
               "the tiles that reach it",
               facts, findings);
}

}  // namespace

const Rule kStg002{
    .id = "STG002",
    .title = "a KV tile that a window has passed advances the semaphore, or is not counted",
    .level = Level::error,
    .what =
        "Under a window the first KV tiles do not reach the last Q tiles. A kernel whose "
        "tiles wait for their own number must let every tile that does not reach a Q tile "
        "advance its semaphore all the same, or count ranks among those that do.",
    .seen = "FlashAttention-3, local: https://github.com/Dao-AILab/flash-attention/pull/1870",
    .examples = kStg002Examples,
    .check = check_stg002};

}  // namespace stagger::tickets
