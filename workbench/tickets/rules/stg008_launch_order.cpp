#include "workbench/tickets/rules/cause.hpp"
#include "workbench/tickets/rules/launch.hpp"

namespace stagger::tickets {

extern const Rule kStg008;

namespace {

constexpr Example kStg008Examples[] = {
    {.notation = "P0: q0@2\nP1: q0@1\nP2: q0@0", .outcome = "hangs", .residency = 2},
    {.notation = "P0: q0@2\nP1: q0@1\nP2: q0@0",
     .outcome = "ends, as all three are resident; an error all the same",
     .residency = 3},
    {.notation = "P2: q0@0\nP1: q0@1\nP0: q0@2", .outcome = "ends", .residency = 1},
};

std::string needs(const Facts& facts, const LaunchOrder& order) {
  const std::int32_t resident = facts.tickets.resident();
  return "it takes " + std::to_string(order.needed) + " programs resident at once" +
         (order.needed > resident ? ", and there are " + std::to_string(resident) + ": it hangs"
                                  : ": on a busy or a smaller machine it hangs");
}

void check_stg008(const Facts& facts, Findings& findings) {
  report_cause(
      kStg008, Cause::direction,
      "The ranks are those of these lists, but the last KV block has fewer groups than the "
      "others, and only a launch downwards (spt) makes up for those that it lacks",
      facts, findings);
  if (facts.tickets.dispatch == Dispatch::static_ || facts.ordered.residency_needed < 2) return;
  const LaunchOrder order = launch_order(facts);
  if (!order.meant) return;
  if (order.reversed) {
    findings.push_back({.rule = &kStg008,
                        .level = kStg008.level,
                        .message = "every semaphore's lock order is the launch order backwards; " +
                                   needs(facts, order) +
                                   ". Launch in the other order (spt), or turn the ranks round",
                        .step = order.contrary.front()});
    return;
  }
  for (const std::int64_t step : order.contrary) {
    if (findings.full(kStg008)) {
      findings.push_back({.rule = &kStg008, .level = kStg008.level});
      continue;
    }
    const Step& late = facts.tickets.steps[step];
    findings.push_back(
        {.rule = &kStg008,
         .level = kStg008.level,
         .message = place_name(facts, step) + ": program " +
                    std::to_string(facts.tickets.program_of(step).value) + " (" +
                    doer_name(facts, step) + ") waits for lock value " + std::to_string(late.wait) +
                    ", which a program brings that is launched after it; " + needs(facts, order) +
                    ". Launch in the order of the lock values, or cooperatively",
         .step = step});
  }
}

const char* beside_stg008(const Facts& facts) {
  return facts.tickets.dispatch == Dispatch::static_
             ? "static dispatch: all programs are resident, or the launch is refused"
             : nullptr;
}

}  // namespace

const Rule kStg008{
    .id = "STG008",
    .title = "the lock order is the launch order",
    .level = Level::error,
    .what =
        "Hardware launches CTAs in order, and a CTA keeps its SM until it ends. One that waits for "
        "a CTA that is launched after it needs both resident at once: so it is on an idle GPU, and "
        "not on one that is busy, smaller, or shared. Launch in the order of the lock values; in "
        "FlashAttention-4, `spt` says that both descend.\n"
        "It is an error even where this machine is large enough. A cooperative launch is refused "
        "where it does not fit, so it is not bound to this rule: --dispatch static.",
    .seen =
        "FlashAttention-4: an spt that is not that of its dq_write_order, "
        "https://github.com/Dao-AILab/flash-attention/pull/2253",
    .examples = kStg008Examples,
    .check = check_stg008,
    .beside = beside_stg008};

}  // namespace stagger::tickets
