#include "schedules/search/slot_cnf.hpp"

#include "core/error.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace stagger::search {
namespace {

/// Pairwise if few, else with a running "one so far".
constexpr std::int64_t kPairwise = 6;

/// The chains that have to start in this order, if symmetry is broken: equal rows of a head by
/// their starts, and heads by the start of their first chain. Both can be had at once: renaming
/// rows within heads makes each first chain the earliest of its equals, and renaming heads leaves
/// that so.
std::vector<std::pair<std::size_t, std::size_t>> ordered_chains(
    const Problem& problem, const std::vector<Chain>& chains,
    const std::vector<std::vector<QTile>>& live_q) {
  std::vector<std::pair<std::size_t, std::size_t>> ordered;
  const std::size_t a_head = chains.size() / at(problem.heads);
  for (std::size_t first = 0; first + a_head < chains.size(); first += a_head)
    ordered.emplace_back(first, first + a_head);
  std::map<std::pair<Head, std::vector<QTile>>, std::size_t> last;
  for (std::size_t chain = 0; chain < chains.size(); ++chain) {
    const std::pair key{chains[chain].head, live_q[at(chains[chain].kv.value)]};
    if (const auto same = last.find(key); same != last.end())
      ordered.emplace_back(same->second, chain);
    last[key] = chain;
  }
  return ordered;
}

std::vector<std::vector<QTile>> live_rows(const TileGrid& grid) {
  std::vector<std::vector<QTile>> rows;
  for (KvTile kv{0}; kv.value < grid.kv_tiles(); ++kv)
    rows.push_back(grid.live_q(kv));
  return rows;
}

/// What at_most() adds for `count` literals, each clause's zero too.
std::int64_t counter_literals(std::int64_t most, std::int64_t count) {
  if (count <= most) return 0;
  const std::int64_t growing = std::min(most, count - 1);  // literals that add a counter
  return 3 * (count - most) + 3 * growing + 7 * growing * (growing - 1) / 2 +
         (count - 1 - growing) * (7 * most - 1);
}

std::int64_t at_most_one_literals(std::int64_t count) {
  return count > kPairwise ? counter_literals(1, count) : 3 * count * (count - 1) / 2;
}

/// What placing a chain and its tasks adds.
std::int64_t chain_literals(std::int64_t length, std::int64_t slots) {
  const std::int64_t starts = std::max<std::int64_t>(slots - length + 1, 0);
  const std::int64_t chain = 2 * (slots - starts) + starts + 1 + at_most_one_literals(starts) +
                             2 * slots + 4 * starts * length;
  const std::int64_t each_task = 4 * slots + 1 + at_most_one_literals(slots);
  const std::int64_t each_slot = at_most_one_literals(length) + length + 2;
  return chain + length * each_task + slots * each_slot;
}

/// What ordering two chains adds.
std::int64_t order_literals(const Chain& first, const Chain& second, std::int64_t slots) {
  const std::int64_t before = std::max<std::int64_t>(slots - first.length + 1, 0);
  const std::int64_t after = std::max<std::int64_t>(slots - second.length + 1, 0);
  const std::int64_t rising = std::min(before, after);
  return 2 * after + rising * (rising + 1) / 2 + (after - rising) * before;
}

}  // namespace

SlotCnf::SlotCnf(const Problem& problem, std::int32_t slots, Symmetry symmetry)
    : problem_(problem), slots_(slots) {
  const std::int64_t literals = SlotCnf::literals(problem, slots, symmetry);
  if (literals > kMostLiterals) {
    throw Error(ErrorKind::limit, "the formula for " + std::to_string(slots) +
                                      " slots would have more than " +
                                      std::to_string(kMostLiterals) + " literals");
  }
  chains_ = chains_of(problem);
  live_q_ = live_rows(problem.grid);
  STAGGER_EXPECTS(slots >= 1 && !chains_.empty());
  cnf_.literals.reserve(at(literals));
  for (const Chain& chain : chains_) {
    first_variable_.push_back(cnf_.variables + 1);
    cnf_.variables += slots_ * (chain.length + 2);
  }
  for (std::size_t chain = 0; chain < chains_.size(); ++chain) {
    place_chain(chain);
    place_tasks(chain);
  }
  separate_contributions();
  bound_sms();
  if (symmetry == Symmetry::left) return;
  for (const auto& [first, second] : ordered_chains(problem, chains_, live_q_))
    order_starts(first, second);
}

std::int64_t SlotCnf::literals(const Problem& problem, std::int32_t slots, Symmetry symmetry) {
  // Every task has a variable for every slot; below the limit no product leaves 64 bits.
  if (problem.tasks() > kMostLiterals / slots) return problem.tasks() * slots;
  const std::vector<Chain> chains = chains_of(problem);
  std::int64_t literals = slots * counter_literals(problem.sms, std::ssize(chains));
  for (const Chain& chain : chains)
    literals += chain_literals(chain.length, slots);
  for (QTile q{0}; q.value < problem.grid.q_tiles(); ++q) {
    literals +=
        std::int64_t{problem.heads} * slots * at_most_one_literals(problem.grid.contributions(q));
  }
  if (symmetry == Symmetry::left) return literals;
  for (const auto& [first, second] : ordered_chains(problem, chains, live_rows(problem.grid)))
    literals += order_literals(chains[first], chains[second], slots);
  return literals;
}

int SlotCnf::start(std::size_t chain, std::int32_t slot) const {
  return first_variable_[chain] + slot;
}
int SlotCnf::active(std::size_t chain, std::int32_t slot) const {
  return first_variable_[chain] + slots_ + slot;
}
int SlotCnf::task(std::size_t chain, std::int32_t k, std::int32_t slot) const {
  return first_variable_[chain] + slots_ * (2 + k) + slot;
}
std::int32_t SlotCnf::last_start(std::size_t chain) const {
  return slots_ - chains_[chain].length;
}

void SlotCnf::add(std::initializer_list<int> clause) {
  cnf_.literals.insert(cnf_.literals.end(), clause);
  cnf_.literals.push_back(0);
  ++cnf_.clauses;
}
void SlotCnf::add(const std::vector<int>& clause) {
  cnf_.literals.insert(cnf_.literals.end(), clause.begin(), clause.end());
  cnf_.literals.push_back(0);
  ++cnf_.clauses;
}

void SlotCnf::at_most_one(const std::vector<int>& literals) {
  if (std::ssize(literals) > kPairwise) return at_most(1, literals);
  for (std::size_t first = 0; first < literals.size(); ++first) {
    for (std::size_t second = first + 1; second < literals.size(); ++second)
      add({-literals[first], -literals[second]});
  }
}

/// A sequential counter: counted[k] after literal i says that more than k of the first i are true.
/// Source: Sinz 2005.
void SlotCnf::at_most(std::int32_t most, const std::vector<int>& literals) {
  if (std::ssize(literals) <= most) return;
  const auto counters = at(most);
  std::vector<int> before;
  for (std::size_t place = 0; place < literals.size(); ++place) {
    const int literal = literals[place];
    if (before.size() == counters) add({-literal, -before.back()});
    if (place + 1 == literals.size()) break;
    std::vector<int> after(std::min(before.size() + 1, counters));
    for (int& variable : after)
      variable = ++cnf_.variables;
    add({-literal, after[0]});
    for (std::size_t count = 0; count < before.size(); ++count) {
      add({-before[count], after[count]});
      if (count + 1 < after.size()) add({-literal, -before[count], after[count + 1]});
    }
    before = std::move(after);
  }
}

/// One start, and active in exactly the slots that follow it.
void SlotCnf::place_chain(std::size_t chain) {
  const std::int32_t length = chains_[chain].length;
  std::vector<int> starts;
  for (std::int32_t slot = 0; slot < slots_; ++slot) {
    if (slot <= last_start(chain)) {
      starts.push_back(start(chain, slot));
    } else {
      add({-start(chain, slot)});
    }
  }
  add(starts);
  at_most_one(starts);
  for (std::int32_t slot = 0; slot < slots_; ++slot) {
    std::vector<int> covering = {-active(chain, slot)};
    for (std::int32_t from = std::max(0, slot - length + 1);
         from <= std::min(slot, last_start(chain)); ++from) {
      covering.push_back(start(chain, from));
      add({-start(chain, from), active(chain, slot)});
    }
    add(covering);
  }
}

/// Each task has exactly one slot, and each active slot exactly one task.
void SlotCnf::place_tasks(std::size_t chain) {
  const std::int32_t length = chains_[chain].length;
  for (std::int32_t k = 0; k < length; ++k) {
    std::vector<int> slots;
    slots.reserve(at(slots_));
    for (std::int32_t slot = 0; slot < slots_; ++slot) {
      slots.push_back(task(chain, k, slot));
      add({-task(chain, k, slot), active(chain, slot)});
    }
    add(slots);
    at_most_one(slots);
  }
  for (std::int32_t slot = 0; slot < slots_; ++slot) {
    std::vector<int> tasks;
    tasks.reserve(at(length) + 1);
    for (std::int32_t k = 0; k < length; ++k)
      tasks.push_back(task(chain, k, slot));
    at_most_one(tasks);
    tasks.push_back(-active(chain, slot));
    add(tasks);
  }
}

void SlotCnf::separate_contributions() {
  std::map<std::pair<Head, QTile>, std::vector<std::pair<std::size_t, std::int32_t>>> tasks;
  for (std::size_t chain = 0; chain < chains_.size(); ++chain) {
    const auto& live = live_q_[at(chains_[chain].kv.value)];
    for (std::int32_t k = 0; k < chains_[chain].length; ++k)
      tasks[{chains_[chain].head, live[at(k)]}].emplace_back(chain, k);
  }
  for (const auto& [tile, contributions] : tasks) {
    for (std::int32_t slot = 0; slot < slots_; ++slot) {
      std::vector<int> literals;
      for (const auto& [chain, k] : contributions)
        literals.push_back(task(chain, k, slot));
      at_most_one(literals);
    }
  }
}

void SlotCnf::bound_sms() {
  for (std::int32_t slot = 0; slot < slots_; ++slot) {
    std::vector<int> literals;
    literals.reserve(chains_.size());
    for (std::size_t chain = 0; chain < chains_.size(); ++chain)
      literals.push_back(active(chain, slot));
    at_most(problem_.sms, literals);
  }
}

void SlotCnf::order_starts(std::size_t first, std::size_t second) {
  for (std::int32_t slot = 0; slot <= last_start(second); ++slot) {
    std::vector<int> clause = {-start(second, slot)};
    for (std::int32_t from = 0; from <= std::min(slot, last_start(first)); ++from)
      clause.push_back(start(first, from));
    add(clause);
  }
}

SlotTimes SlotCnf::times(const std::function<bool(int)>& is_true) const {
  SlotTimes times;
  for (std::size_t chain = 0; chain < chains_.size(); ++chain) {
    const auto& [head, kv, length] = chains_[chain];
    for (std::int32_t k = 0; k < length; ++k) {
      const QTile q = live_q_[at(kv.value)][at(k)];
      for (std::int32_t slot = 0; slot < slots_; ++slot) {
        if (is_true(task(chain, k, slot))) times.push_back({{head, kv, q}, slot});
      }
    }
  }
  return times;
}

std::string SlotCnf::dimacs() const {
  std::string text = "c stagger: do " + std::to_string(slots_) + " slots suffice?\n";
  const auto name = [&](int variable, const std::string& meaning) {
    text += "c " + std::to_string(variable) + " = " + meaning + "\n";
  };
  for (std::size_t chain = 0; chain < chains_.size(); ++chain) {
    const auto& [head, kv, length] = chains_[chain];
    const std::string place =
        " head " + std::to_string(head.value) + " kv " + std::to_string(kv.value);
    for (std::int32_t slot = 0; slot < slots_; ++slot) {
      name(start(chain, slot), "start" + place + " slot " + std::to_string(slot));
      for (std::int32_t k = 0; k < length; ++k) {
        const QTile q = live_q_[at(kv.value)][at(k)];
        name(task(chain, k, slot),
             "task" + place + " q " + std::to_string(q.value) + " slot " + std::to_string(slot));
      }
    }
  }
  text += "p cnf " + std::to_string(cnf_.variables) + " " + std::to_string(cnf_.clauses) + "\n";
  for (const int literal : cnf_.literals) {
    text += std::to_string(literal);
    text += literal == 0 ? '\n' : ' ';
  }
  return text;
}

}  // namespace stagger::search
