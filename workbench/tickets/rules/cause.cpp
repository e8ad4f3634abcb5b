#include "workbench/tickets/rules/cause.hpp"

#include <algorithm>

namespace stagger::tickets {
namespace {

constexpr std::int64_t kValuesShown = 12;

/// What can be asked of a broken semaphore's waits.
class Waits {
 public:
  Waits(const Facts& facts, const Broken& broken)
      : tickets_(facts.tickets),
        waits_(facts.chains.waits(broken.semaphore)),
        bumps_(facts.chains.bumps(broken.semaphore)),
        initial_(tickets_.initial[broken.semaphore]) {}

  [[nodiscard]] const Step& step(std::size_t index) const { return tickets_.steps[waits_[index]]; }
  [[nodiscard]] std::int64_t size() const { return std::ssize(waits_); }

  [[nodiscard]] bool nobody_reduces() const {
    const auto reduces = [&](std::int64_t index) { return tickets_.steps[index].reduces; };
    return std::none_of(waits_.begin(), waits_.end(), reduces) &&
           std::none_of(bumps_.begin(), bumps_.end(), reduces);
  }
  [[nodiscard]] bool several_heads() const {
    return !all([&](const Step& each) { return each.task.head == step(0).task.head; });
  }
  /// Whether each waits for its head's number, counted from some head on.
  [[nodiscard]] bool number_heads() const {
    return all([&](const Step& each) {
      return each.wait - each.task.head.value == step(0).wait - step(0).task.head.value;
    });
  }
  /// Whether they would be an order if the semaphore began elsewhere.
  [[nodiscard]] bool hold_from(std::int64_t shown) const {
    if (!bumps_.empty()) return false;
    return all([&](const Step& each) {
      const bool holds = each.wait == shown;
      shown += each.add;
      return holds;
    });
  }
  /// Whether the values are the ranks, each once, so that only additions can be wrong.
  [[nodiscard]] bool are_ranks() const { return bumps_.empty() && spaced(initial_, 1); }
  /// Whether values count one unit and additions another.
  [[nodiscard]] bool mix_units() const {
    if (size() < 2 || !bumps_.empty()) return false;
    const std::int32_t add = step(0).add;
    if (!all([&](const Step& each) { return each.add == add; })) return false;
    if (spaced(initial_, 1)) return add > 1;
    const std::int64_t first = step(0).wait - initial_;
    if (add != 1 || first < 0) return false;
    const std::int64_t stride = std::int64_t{step(1).wait} - step(0).wait;
    const bool strided = size() > 2 && first == 0 && stride > 1 && spaced(initial_, stride);
    // The highest values of those that a kernel of 2, 3, … times as many CTAs would have.
    const bool highest = first > 0 && first % size() == 0 && spaced(step(0).wait, 1);
    return strided || highest;
  }

 private:
  template <class Predicate>
  [[nodiscard]] bool all(Predicate predicate) const {
    return std::all_of(waits_.begin(), waits_.end(),
                       [&](std::int64_t index) { return predicate(tickets_.steps[index]); });
  }
  [[nodiscard]] bool spaced(std::int64_t first, std::int64_t stride) const {
    std::int64_t expected = first - stride;
    return all([&](const Step& each) { return each.wait == (expected += stride); });
  }

  const Tickets& tickets_;
  std::span<const std::int64_t> waits_;
  std::span<const std::int64_t> bumps_;
  std::int64_t initial_;
};

/// Why values that are numbers of KV tiles hang.
Cause cause_of(const Numbering& numbering) {
  if (numbering.kind == Numbering::Kind::descending && numbering.top >= numbering.kv_tiles) {
    const bool times = numbering.kv_tiles > 1 && (numbering.top + 1) % numbering.kv_tiles == 0;
    return times ? Cause::unit : Cause::tail;
  }
  switch (numbering.skipped) {
    case Numbering::Skipped::window:
      return Cause::window;
    case Numbering::Skipped::holes:
      return Cause::hole;
    case Numbering::Skipped::empty:
      break;
  }
  return Cause::rank_set;
}

Cause cause_of_gap(const Facts& facts, const Broken& broken, const Waits& waits) {
  const std::int64_t initial = facts.tickets.initial[broken.semaphore];
  if (initial != 0 && waits.hold_from(0)) return Cause::initial;
  if (facts.origin == Origin::block_lists) return Cause::stale;
  if (facts.origin == Origin::ranked_lists) return Cause::direction;
  if (waits.are_ranks()) return waits.mix_units() ? Cause::unit : Cause::gap;
  const bool ascends = facts.numbering.kind == Numbering::Kind::ascending;
  if (ascends) return cause_of(facts.numbering);
  if (waits.mix_units()) return Cause::unit;
  if (facts.numbering.kind != Numbering::Kind::none && waits.size() > 0) {
    const Cause cause = cause_of(facts.numbering);
    if (waits.size() > 1 || cause != Cause::tail) return cause;
  }
  return broken.shown == initial && facts.chains.waits(broken.semaphore).front() == broken.step
             ? Cause::rank_set
             : Cause::gap;
}

/// `, as kv 0 adds 2`: the last addition in front of the first fault that is too large for a value
/// that is past, or too small for one that nobody brings, if there is one.
std::string addition_words(const Facts& facts, const Broken& broken) {
  std::string words;
  if (facts.origin != Origin::given) return words;
  for (const std::int64_t index : facts.chains.waits(broken.semaphore)) {
    const Step& step = facts.tickets.steps[index];
    if (step.wait >= facts.tickets.steps[broken.step].wait) break;
    const bool to_blame = broken.fault == Fault::past ? step.add > 1 : step.add == 0;
    if (!to_blame || !step.reduces) continue;
    words = ", as " + doer_name(facts, index) + " adds " + std::to_string(step.add);
  }
  return words;
}

/// What a broken semaphore's first fault does.
std::string fault_words(const Facts& facts, const Broken& broken) {
  const std::string who = doer_name(facts, broken.step);
  const std::string value = std::to_string(facts.tickets.steps[broken.step].wait);
  switch (broken.fault) {
    case Fault::past:
      return who + " waits for " + value + ", which is past: the semaphore shows " +
             std::to_string(broken.shown) + addition_words(facts, broken);
    case Fault::twice:
      return doer_name(facts, broken.other) + " and " + who + " both wait for " + value +
             ": two have one turn";
    case Fault::gap:
      break;
  }
  return who + " waits for " + value + ", and nobody brings " + std::to_string(broken.shown + 1) +
         (broken.shown + 1 < facts.tickets.steps[broken.step].wait ? " to " + value : "") +
         ": the semaphore stays at " + std::to_string(broken.shown) + addition_words(facts, broken);
}

}  // namespace

Cause cause_of(const Facts& facts, const Broken& broken) {
  const Waits waits(facts, broken);
  const Step& step = facts.tickets.steps[broken.step];
  if (step.task.q.value < 0) return Cause::group;
  if (waits.several_heads()) {
    const bool numbered = broken.fault != Fault::twice && waits.number_heads();
    return numbered ? Cause::group : Cause::shared;
  }
  if (broken.fault == Fault::twice) {
    const bool same = facts.tickets.steps[broken.other].task == step.task;
    return same ? Cause::listed_twice : Cause::rank_set;
  }
  if (broken.fault == Fault::gap && waits.nobody_reduces()) return Cause::empty;
  return cause_of_gap(facts, broken, waits);
}

void report_cause(const Rule& rule, Cause cause, const char* why, const Facts& facts,
                  Findings& findings) {
  for (const Broken& broken : facts.chains.broken()) {
    if (cause_of(facts, broken) != cause) continue;
    if (findings.full(rule)) {
      findings.push_back({.rule = &rule, .level = rule.level});
      continue;
    }
    findings.push_back({.rule = &rule,
                        .level = rule.level,
                        .message = place_name(facts, broken.step) + ": lock values {" +
                                   values_of(facts, broken.semaphore) + "}; " +
                                   fault_words(facts, broken) + ". " + why,
                        .step = broken.step,
                        .other = broken.other});
  }
}

std::string place_name(const Facts& facts, std::int64_t step) {
  const Step& at = facts.tickets.steps[step];
  const std::string semaphore = " (semaphore " + std::to_string(at.semaphore.value) + ")";
  if (at.task.q.value < 0) return "dK, dV of kv " + std::to_string(at.task.kv.value) + semaphore;
  return "head " + std::to_string(at.task.head.value) + ", q " + std::to_string(at.task.q.value) +
         semaphore;
}

std::string doer_name(const Facts& facts, std::int64_t step) {
  const Task& task = facts.tickets.steps[step].task;
  return (task.head.value == 0 ? "" : "head " + std::to_string(task.head.value) + ", ") + "kv " +
         std::to_string(task.kv.value);
}

std::string values_of(const Facts& facts, Semaphore semaphore) {
  const std::span<const std::int64_t> waits = facts.chains.waits(semaphore);
  std::string values;
  for (std::int64_t index = 0; index < std::min(std::ssize(waits), kValuesShown); ++index) {
    values += (index == 0 ? "" : ", ") + std::to_string(facts.tickets.steps[waits[at(index)]].wait);
  }
  return std::ssize(waits) > kValuesShown ? values + ", …" : values;
}

}  // namespace stagger::tickets
