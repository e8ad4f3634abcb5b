#include "workbench/tickets/rules/cause.hpp"

namespace stagger::tickets {

extern const Rule kStg004;

namespace {

constexpr Example kStg004Examples[] = {
    {.notation = "P0: q0@0 h1.q0[0]@0\nP1: q0@1 h1.q0[0]@1", .outcome = "hangs"},
    {.notation = "P0: q0@0 h1.q0@0\nP1: q0@1 h1.q0@1", .outcome = "ends"},
};

void check_stg004(const Facts& facts, Findings& findings) {
  report_cause(kStg004, Cause::shared,
               "Several heads have this semaphore: index it by batch, head and Q tile", facts,
               findings);
  for (const Race& race : facts.races.races) {
    const Step& step = facts.tickets.steps[race.step];
    const Step& other = facts.tickets.steps[race.other];
    if (race.hangs || !step.waits() || !other.waits() || step.semaphore == other.semaphore)
      continue;
    findings.push_back(
        {.rule = &kStg004,
         .level = kStg004.level,
         .message = place_name(facts, race.step) + ": " + doer_name(facts, race.step) +
                    " waits for this semaphore, and " + doer_name(facts, race.other) +
                    " for semaphore " + std::to_string(other.semaphore.value) +
                    ": no order between them is fixed. One dQ tile has one semaphore",
         .step = race.step,
         .other = race.other});
  }
}

const char* beside_stg004(const Facts& facts) {
  return facts.grids == nullptr && facts.origin == Origin::given
             ? nullptr
             : "semaphores are not numbered in it: each dQ tile has its own";
}

}  // namespace

const Rule kStg004{
    .id = "STG004",
    .title = "every dQ tile has one semaphore of its own",
    .level = Level::error,
    .what =
        "Two heads, or two sequences of a batch, that share a semaphore advance it for each "
        "other: values come twice as fast, and who waits for one misses it. And a dQ tile "
        "whose tiles use two semaphores is added up in no fixed order: other bits every run. "
        "Index semaphores by batch, head and Q tile.",
    .seen =
        "FlashAttention: https://github.com/Dao-AILab/flash-attention/pull/1678 (batches of "
        "more than one)",
    .examples = kStg004Examples,
    .check = check_stg004,
    .beside = beside_stg004};

}  // namespace stagger::tickets
