#include "workbench/tickets/rules/cause.hpp"

namespace stagger::tickets {

extern const Rule kStg012;

namespace {

constexpr Example kStg012Examples[] = {
    {.notation = "P0: q0[0]@0\nP1:\nP2: h2.q0[0]@2", .outcome = "hangs"},
    {.notation = "P0: q0[0]@0\nP1: (h1.q0[0]@1)\nP2: h2.q0[0]@2", .outcome = "ends"},
};

void check_stg012(const Facts& facts, Findings& findings) {
  report_cause(kStg012, Cause::group,
               "The values are numbers of heads, and a head with nothing to do here does not pass "
               "its turn on",
               facts, findings);
}

}  // namespace

const Rule kStg012{
    .id = "STG012",
    .title = "every head of a group advances the semaphore of dK and dV",
    .level = Level::error,
    .what =
        "Where heads share K and V and are added in turn, the turn of a head for which a KV "
        "tile is empty must be passed on, or not be counted. A kernel that leaves an empty "
        "tile early skips that.",
    .seen =
        "FlashAttention-4 on sm100, block-sparse with grouped heads, "
        "https://github.com/Dao-AILab/flash-attention (read in the source, not yet seen to happen)",
    .examples = kStg012Examples,
    .check = check_stg012};

}  // namespace stagger::tickets
