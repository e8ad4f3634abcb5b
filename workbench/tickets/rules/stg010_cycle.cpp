#include "workbench/tickets/rules/cause.hpp"

namespace stagger::tickets {

extern const Rule kStg010;

namespace {

constexpr Example kStg010Examples[] = {
    {.notation = "P0: q0@0 q1@1\nP1: q1@0 q0@1",
     .outcome = "hangs: each releases its first tile only when its second begins",
     .dispatch = Dispatch::static_,
     .release = Release::delayed},
    {.notation = "P0: q0@0 q1@1\nP1: q1@0 q0@1", .outcome = "ends", .dispatch = Dispatch::static_},
    {.notation = "P0: q0@1 q1@0\nP1: q1@1 q0@0", .outcome = "hangs", .dispatch = Dispatch::static_},
};

void check_stg010(const Facts& facts, Findings& findings) {
  if (facts.ordered.residency_needed > 0 || facts.tickets.programs() == 0) return;
  // What is left hangs however many are resident. Where nothing is contested, that is a cycle.
  Tickets all = without_broken(facts.tickets, facts.chains);
  all.residency = 0;
  const Outcome outcome = play(all);
  if (outcome.cycle.empty()) return;
  all.release = Release::immediate;
  const bool by_delay = facts.tickets.release == Release::delayed && play(all).residency_needed > 0;
  std::string cycle;
  for (const Stuck& stuck : outcome.cycle) {
    cycle += (cycle.empty() ? "" : ", ") + std::string("program ") +
             std::to_string(stuck.program.value) + " waits for program " +
             std::to_string(stuck.for_program.value) + " at q " +
             std::to_string(facts.tickets.steps[stuck.step].task.q.value);
  }
  findings.push_back(
      {.rule = &kStg010,
       .level = kStg010.level,
       .message =
           "a cycle of " + std::to_string(outcome.cycle.size()) + " waits" +
           (by_delay ? ", which delayed release closes (immediate release would do): " : ": ") +
           cycle,
       .step = outcome.cycle.front().step});
}

}  // namespace

const Rule kStg010{
    .id = "STG010",
    .title = "waits have no cycle, delayed releases counted",
    .level = Level::error,
    .what =
        "A program that waits for what another has behind a wait for the first hangs with it, "
        "however many are resident. Delayed release, as FlashAttention-4 has it for dense "
        "masks, puts every release behind the next wait of its program, and so closes cycles "
        "that are open without it: shift hangs with it.",
    .seen =
        "FlashAttention-4's delayed release under a shifted order: flash_bwd_sm100.py in "
        "https://github.com/Dao-AILab/flash-attention",
    .examples = kStg010Examples,
    .check = check_stg010};

}  // namespace stagger::tickets
