#include "workbench/tickets/rules/cause.hpp"

namespace stagger::tickets {

extern const Rule kStg003;

namespace {

constexpr Example kStg003Examples[] = {
    {.notation = "P0: q0@0\nP1: q0@1",
     .outcome = "hangs: P1 overtakes, P0 waits for ever",
     .initial = 1},
    {.notation = "P0: q0@0\nP1: q0@1", .outcome = "ends"},
};

void check_stg003(const Facts& facts, Findings& findings) {
  for (const Broken& broken : facts.chains.broken()) {
    if (cause_of(facts, broken) != Cause::initial) continue;
    const std::int64_t initial = facts.tickets.initial[broken.semaphore];
    findings.push_back({.rule = &kStg003,
                        .level = kStg003.level,
                        .message = place_name(facts, broken.step) + ": begins at " +
                                   std::to_string(initial) + ", and the lock values {" +
                                   values_of(facts, broken.semaphore) +
                                   "} count from 0. Set it to 0 before the launch",
                        .step = broken.step});
  }
}

const char* beside_stg003(const Facts& facts) {
  return facts.grids == nullptr && facts.origin == Origin::given
             ? nullptr
             : "no initial values are in it: semaphores begin at 0";
}

}  // namespace

const Rule kStg003{
    .id = "STG003",
    .title = "semaphores begin at 0",
    .level = Level::error,
    .what =
        "A semaphore that still holds what a run before left there lets one tile overtake the "
        "others, and those hang. Set semaphores to 0 before each launch, on the stream that "
        "launches.",
    .seen =
        "FlashAttention: https://github.com/Dao-AILab/flash-attention/pull/1839\n"
        "Paddle: https://github.com/PaddlePaddle/Paddle/pull/76496",
    .examples = kStg003Examples,
    .check = check_stg003,
    .beside = beside_stg003};

}  // namespace stagger::tickets
