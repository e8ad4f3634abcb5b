#include "workbench/tickets/rules/cause.hpp"

namespace stagger::tickets {

extern const Rule kStg011;

namespace {

constexpr Example kStg011Examples[] = {
    {.notation = "P2: q0@1\nP1: q0@2\nP0: q0@3",
     .outcome = "hangs: 641 tokens, KV blocks of 512, two CTAs"},
    {.notation = "P2: q0@0+2\nP1: q0@2\nP0: q0@3", .outcome = "ends"},
};

void check_stg011(const Facts& facts, Findings& findings) {
  report_cause(
      kStg011, Cause::tail,
      "The values count down from a number of KV tiles that is rounded up to whole blocks: "
      "the tiles that the last block does not have never add",
      facts, findings);
}

}  // namespace

const Rule kStg011{
    .id = "STG011",
    .title = "a truncated last KV block has fewer groups",
    .level = Level::error,
    .what =
        "Where a sparse KV block is several tiles (or clusters) wide, the last block of a "
        "sequence may have fewer. Values that count the groups it does not have are never "
        "brought: with descending order the first tile waits for 1 or more, and hangs. Count "
        "the groups that exist, and let the block's first group add what is missing: 1 + (G - "
        "own).",
    .seen =
        "FlashAttention-4: the NOTE on the tail in flash_bwd_sm100.py, "
        "https://github.com/Dao-AILab/flash-attention/pull/2661",
    .examples = kStg011Examples,
    .check = check_stg011};

}  // namespace stagger::tickets
