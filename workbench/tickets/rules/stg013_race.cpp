#include "workbench/tickets/rules/cause.hpp"

#include <algorithm>
#include <vector>

namespace stagger::tickets {

extern const Rule kStg013;

namespace {

constexpr Example kStg013Examples[] = {
    {.notation = "P0: q0@0\nP1: q0+\nP2: q0@2", .outcome = "hangs if P1 is first"},
    {.notation = "P0: q0+\nP1: q0@1\nP2: q0@2", .outcome = "ends"},
    {.notation = "P0: q0@0\nP1: (q0@1)\nP2: q0@2", .outcome = "ends"},
};

/// Whether a step's semaphore has a mistake that another rule names.
bool is_broken(const Facts& facts, const Step& step) {
  const std::vector<Broken>& broken = facts.chains.broken();
  return std::any_of(broken.begin(), broken.end(),
                     [&](const Broken& each) { return each.semaphore == step.semaphore; });
}

void check_stg013(const Facts& facts, Findings& findings) {
  for (const Race& race : facts.races.races) {
    const Step& step = facts.tickets.steps[race.step];
    const Step& other = facts.tickets.steps[race.other];
    if (is_broken(facts, step) || is_broken(facts, other)) continue;
    if (!race.hangs && step.semaphore != other.semaphore && step.waits() && other.waits()) {
      continue;  // STG004's
    }
    const std::string hangs =
        race.other == race.step
            ? doer_name(facts, race.step) + " waits for " + std::to_string(step.wait) +
                  ", and others can bring the semaphore beyond that before it looks"
            : doer_name(facts, race.step) + " waits for " + std::to_string(step.wait) + ", and " +
                  doer_name(facts, race.other) +
                  ", which adds without being ordered behind it, may come first";
    const std::string bits = doer_name(facts, race.step) + " and " + doer_name(facts, race.other) +
                             " reduce in any order: the bits differ";
    findings.push_back({.rule = &kStg013,
                        .level = kStg013.level,
                        .message = place_name(facts, race.step) + ": " +
                                   (race.hangs ? hangs + ": it hangs then" : bits),
                        .step = race.step,
                        .other = race.other});
  }
  if (facts.races.complete) return;
  findings.push_back({.rule = &kStg013,
                      .level = Level::warning,
                      .message = "steps add without waiting in so many places that not all of them "
                                 "were tried: some may race"});
}

}  // namespace

const Rule kStg013{
    .id = "STG013",
    .title = "what adds without waiting comes before everyone who waits",
    .level = Level::error,
    .what =
        "A step that advances a semaphore without a wait can do so at any time. That is safe "
        "only below the first value that somebody waits for: all such additions have come "
        "before it then. Anywhere else, whoever is passed by hangs, in some runs and not in "
        "others. A reduction without a wait is added in any order: other bits every run.",
    .seen =
        "FlashAttention-3, local: tiles beyond the window advance the semaphore without a "
        "wait, and are right because they are below the first",
    .examples = kStg013Examples,
    .check = check_stg013};

}  // namespace stagger::tickets
