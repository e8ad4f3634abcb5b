#include "workbench/tickets/lint.hpp"

#include "workbench/tickets/minimize.hpp"

#include <algorithm>
#include <span>
#include <utility>

namespace stagger::tickets {
namespace {

LintVerdict verdict_of(const Facts& facts, const std::vector<Finding>& findings) {
  const auto hangs = [](const Race& race) { return race.hangs; };
  if (facts.outcome.hangs ||
      std::any_of(facts.races.races.begin(), facts.races.races.end(), hangs)) {
    return LintVerdict::deadlock;
  }
  const bool wrong = std::any_of(findings.begin(), findings.end(), [](const Finding& finding) {
    return finding.level == Level::error;
  });
  return wrong ? LintVerdict::invalid : LintVerdict::ok;
}

/// Where steps are; -1 is nowhere.
std::vector<At> places_of_steps(const Document& document, std::string_view text,
                                std::span<const std::int64_t> steps) {
  std::vector<Finding> findings;
  findings.reserve(steps.size());
  for (const std::int64_t step : steps)
    findings.push_back({.step = step});
  return locate(document, text, findings);
}

/// Where the steps are that findings have to do with, and those that wait in the cycle.
void locate_beside(const Document& document, std::string_view text, const Facts& facts,
                   Linted& linted) {
  std::vector<std::int64_t> others;
  for (const Finding& finding : linted.findings)
    others.push_back(finding.other);
  linted.others = places_of_steps(document, text, others);
  std::vector<std::int64_t> waits;
  for (const Stuck& stuck : facts.outcome.cycle)
    waits.push_back(stuck.step);
  linted.cycle_places = places_of_steps(document, text, waits);
}

}  // namespace

Linted lint(std::string_view text, const std::string& file, const LintRequest& request) {
  Document document = read_document(text, file, request.limit);
  Tickets& tickets = document.tickets;
  tickets.residency = request.residency.value_or(tickets.residency);
  tickets.release = request.release.value_or(tickets.release);
  tickets.dispatch = request.dispatch.value_or(tickets.dispatch);
  const Problem* problem = document.problem ? &*document.problem : nullptr;
  const Facts facts(tickets, document.origin, problem == nullptr ? nullptr : &problem->grids,
                    problem == nullptr ? 0 : problem->heads);
  Findings& findings = document.found;
  apply_rules(facts, findings);

  Linted linted{.file = file, .kind = document.kind, .findings = findings.take()};
  linted.verdict = verdict_of(facts, linted.findings);
  linted.sums = sum_order(tickets, facts.chains, facts.races);
  linted.places = locate(document, text, linted.findings);
  locate_beside(document, text, facts, linted);
  for (const Rule* rule : rules())
    linted.skipped.push_back(why_beside(*rule, facts));
  linted.cycle = describe(tickets, facts.outcome.cycle);
  linted.starved = describe(tickets, facts.outcome.starved);
  linted.residency = facts.outcome.residency;
  linted.residency_needed = facts.outcome.residency_needed;
  if (request.minimize && facts.outcome.hangs) linted.smallest = minimize(tickets);
  return linted;
}

}  // namespace stagger::tickets
