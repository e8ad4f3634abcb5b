#include "workbench/tickets/rules.hpp"

#include "core/error.hpp"
#include "workbench/tickets/notation.hpp"

#include <algorithm>
#include <array>
#include <iterator>

namespace stagger::tickets {

extern const Rule kStg001;
extern const Rule kStg002;
extern const Rule kStg003;
extern const Rule kStg004;
extern const Rule kStg005;
extern const Rule kStg006;
extern const Rule kStg007;
extern const Rule kStg008;
extern const Rule kStg009;
extern const Rule kStg010;
extern const Rule kStg011;
extern const Rule kStg012;
extern const Rule kStg013;
extern const Rule kStg014;
extern const Rule kStg015;
extern const Rule kStg016;
extern const Rule kStg017;

namespace {

constexpr std::array kRules = {&kStg001, &kStg002, &kStg003, &kStg004, &kStg005, &kStg006,
                               &kStg007, &kStg008, &kStg009, &kStg010, &kStg011, &kStg012,
                               &kStg013, &kStg014, &kStg015, &kStg016, &kStg017};

}  // namespace

void Findings::push_back(Finding finding) {
  STAGGER_EXPECTS(finding.rule != nullptr);
  auto count = std::find_if(counts_.begin(), counts_.end(),
                            [&](const Count& each) { return each.rule == finding.rule; });
  if (count == counts_.end()) count = counts_.insert(count, Count{.rule = finding.rule});
  has_error_ = has_error_ || finding.level == Level::error;
  count->level = std::max(count->level, finding.level);
  if (++count->total <= limit_) count->kept.push_back(std::move(finding));
}

bool Findings::full(const Rule& rule) const {
  return std::any_of(counts_.begin(), counts_.end(), [&](const Count& count) {
    return count.rule == &rule && count.total >= limit_;
  });
}

std::vector<Finding> Findings::take() {
  std::sort(counts_.begin(), counts_.end(), [](const Count& left, const Count& right) {
    return std::string_view(left.rule->id) < right.rule->id;
  });
  std::vector<Finding> all;
  for (Count& count : counts_) {
    std::ranges::move(count.kept, std::back_inserter(all));
    if (count.total <= limit_) continue;
    all.push_back(
        {.rule = count.rule,
         .level = count.level,
         .message = "and " + std::to_string(count.total - limit_) + " more of this rule"});
  }
  counts_.clear();
  return all;
}

Facts::Facts(const Tickets& linted, Origin from, const HeadGrids* live, std::int32_t live_heads)
    : tickets(linted),
      origin(from),
      grids(live),
      heads(live_heads),
      chains(linted),
      races(find_races(linted, chains)),
      outcome(play(linted)),
      ordered(chains.broken().empty() ? outcome : play(without_broken(linted, chains))),
      numbering(numbering_of(linted, chains)) {}

Tickets tickets_of(const Example& example) {
  Tickets tickets = read_notation(example.notation);
  tickets.residency = example.residency;
  tickets.dispatch = example.dispatch;
  tickets.release = example.release;
  std::fill(tickets.initial.begin(), tickets.initial.end(), example.initial);
  return tickets;
}

std::span<const Rule* const> rules() {
  return kRules;
}

const Rule* find_rule(std::string_view id) {
  const auto found =
      std::find_if(kRules.begin(), kRules.end(), [&](const Rule* rule) { return id == rule->id; });
  return found == kRules.end() ? nullptr : *found;
}

const char* why_beside(const Rule& rule, const Facts& facts) {
  return rule.beside == nullptr ? nullptr : rule.beside(facts);
}

void apply_rules(const Facts& facts, Findings& findings) {
  for (const Rule* rule : kRules)
    rule->check(facts, findings);
  // What hangs in ways that no rule has foreseen is still somebody who waits for ever.
  if (!facts.outcome.hangs || findings.has_error()) return;
  const Rule& rule = facts.outcome.starved.empty() ? kStg010 : kStg007;
  const std::vector<Stuck>& stuck =
      facts.outcome.starved.empty() ? facts.outcome.cycle : facts.outcome.starved;
  const std::vector<std::string> words = describe(facts.tickets, stuck);
  findings.push_back({.rule = &rule,
                      .level = Level::error,
                      .message = words.empty() ? "it hangs" : words.front(),
                      .step = stuck.empty() ? -1 : stuck.front().step});
}

}  // namespace stagger::tickets
