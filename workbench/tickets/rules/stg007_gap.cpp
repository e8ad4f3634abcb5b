#include "workbench/tickets/rules/cause.hpp"

namespace stagger::tickets {

extern const Rule kStg007;

namespace {

constexpr Example kStg007Examples[] = {
    {.notation = "P0: q0@0\nP1: q0@2", .outcome = "hangs"},
    {.notation = "P0: q0@0+2\nP1: q0@2", .outcome = "ends"},
};

void check_stg007(const Facts& facts, Findings& findings) {
  report_cause(kStg007, Cause::gap,
               "Leave no value out: a tile adds what is between its value and the next", facts,
               findings);
}

}  // namespace

const Rule kStg007{
    .id = "STG007",
    .title = "no lock value is left out, unless an addition bridges it",
    .level = Level::error,
    .what =
        "Where a value is missing in the middle, or a tile does not add, everything behind it "
        "waits for ever, and where an addition is too large, whoever waits for a value in "
        "between. A gap is right only if the tile in front of it adds as much more: "
        "FlashAttention-4 bridges "
        "the KV blocks that a truncated last block does not have so.",
    .seen = "FlashAttention-4: https://github.com/Dao-AILab/flash-attention/pull/2661",
    .examples = kStg007Examples,
    .check = check_stg007};

}  // namespace stagger::tickets
