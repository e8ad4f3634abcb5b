#include "workbench/tickets/rules/cause.hpp"

namespace stagger::tickets {

extern const Rule kStg014;

namespace {

constexpr Example kStg014Examples[] = {
    {.notation = "P0: q0@0\nP1: q1@1\nP2: q0@2 q1@2", .outcome = "hangs"},
    {.notation = "P0: q0@0 (q1@0)\nP1: (q0@1) q1@1\nP2: q0@2 q1@2", .outcome = "ends"},
};

void check_stg014(const Facts& facts, Findings& findings) {
  report_cause(
      kStg014, Cause::hole,
      "The values are numbers of KV tiles, and a tile that is skipped does not advance the "
      "semaphore: let it wait and add, or count ranks among the live tiles",
      facts, findings);
}

}  // namespace

const Rule kStg014{
    .id = "STG014",
    .title = "what skips a tile does not skip its addition",
    .level = Level::error,
    .what =
        "A kernel that takes a dead tile out of its loop before it waits and adds, while lock "
        "values stay numbers of KV tiles, leaves out a value in the middle. Everything behind "
        "it hangs. Let a dead tile wait and add without reducing, or count ranks among live "
        "tiles.",
    .seen =
        "FlashMask: `continue` on a dead tile of block_mask, mainloop_bwd_sm90, "
        "https://github.com/PaddlePaddle/flash-attention (read in the source)",
    .examples = kStg014Examples,
    .check = check_stg014};

}  // namespace stagger::tickets
