#include "schedules/search/round_cnf.hpp"

#include "core/error.hpp"
#include "schedules/search/round_symmetry.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace stagger::search {
namespace {

/// Pairwise if few, else with a running "one so far".
constexpr std::int64_t kPairwise = 6;

/// Literals until it is asked whether to stop: milliseconds.
constexpr std::int64_t kAskedLiterals = std::int64_t{1} << 18;

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
std::int64_t chain_literals(std::int64_t length, std::int64_t rounds) {
  const std::int64_t starts = std::max<std::int64_t>(rounds - length + 1, 0);
  const std::int64_t chain = 2 * (rounds - starts) + starts + 1 + at_most_one_literals(starts) +
                             2 * rounds + 4 * starts * length;
  const std::int64_t each_task = 4 * rounds + 1 + at_most_one_literals(rounds);
  const std::int64_t each_round = at_most_one_literals(length) + length + 2;
  return chain + length * each_task + rounds * each_round;
}

/// What keeping the ends of chains apart adds.
std::int64_t ends_literals(std::vector<std::int32_t> lengths, std::int64_t rounds) {
  std::sort(lengths.begin(), lengths.end());
  std::int64_t literals = 0;
  for (std::size_t count = 1; count <= lengths.size(); ++count) {
    // Rounds in which so many of the chains can end.
    const std::int64_t until = count == lengths.size() ? rounds : lengths[count] - 1;
    const std::int64_t during = std::min(until, rounds) - (lengths[count - 1] - 1);
    if (during > 0) literals += during * at_most_one_literals(static_cast<std::int64_t>(count));
  }
  return literals;
}

/// What ordering two chains adds.
std::int64_t order_literals(const Chain& first, const Chain& second, std::int64_t rounds) {
  const std::int64_t before = std::max<std::int64_t>(rounds - first.length + 1, 0);
  const std::int64_t after = std::max<std::int64_t>(rounds - second.length + 1, 0);
  const std::int64_t rising = std::min(before, after);
  return 2 * after + rising * (rising + 1) / 2 + (after - rising) * before;
}

}  // namespace

RoundCnf::RoundCnf(const Problem& problem, std::int32_t rounds, Symmetry symmetry, const Stop& stop)
    : problem_(problem), rounds_(rounds), next_asked_(kAskedLiterals) {
  const std::int64_t literals = RoundCnf::literals(problem, rounds, symmetry);
  if (literals > kMostLiterals) {
    throw Error(ErrorKind::limit, "the formula for " + std::to_string(rounds) +
                                      " rounds would have more than " +
                                      std::to_string(kMostLiterals) + " literals");
  }
  chains_ = chains_of(problem);
  STAGGER_EXPECTS(rounds >= 1 && !chains_.empty());
  cnf_.literals.reserve(at(literals));
  for (const Chain& chain : chains_) {
    tasks_.push_back(tasks_of(problem, chain));
    first_variable_.push_back(cnf_.variables + 1);
    cnf_.variables += rounds_ * (chain.length + 2);
  }
  for (std::size_t chain = 0; chain < chains_.size(); ++chain) {
    if (stops(stop)) return;
    place_chain(chain);
    place_tasks(chain);
  }
  separate_contributions(stop);
  separate_ends();
  bound_sms(stop);
  if (symmetry == Symmetry::left) return;
  for (const auto& [first, second] : ordered_chains(problem, chains_)) {
    if (stops(stop)) return;
    order_starts(first, second);
  }
}

bool RoundCnf::stops(const Stop& stop) {
  if (complete_ && std::ssize(cnf_.literals) >= next_asked_) {
    next_asked_ = std::ssize(cnf_.literals) + kAskedLiterals;
    complete_ = !stop();
  }
  return !complete_;
}

std::int64_t RoundCnf::literals(const Problem& problem, std::int32_t rounds, Symmetry symmetry) {
  // Every task has a variable for every round; below the limit no product leaves 64 bits.
  if (problem.tasks() > kMostLiterals / rounds) return problem.tasks() * rounds;
  const std::vector<Chain> chains = chains_of(problem);
  std::int64_t literals = rounds * counter_literals(problem.sms, std::ssize(chains));
  for (const Chain& chain : chains)
    literals += chain_literals(chain.length, rounds);
  const std::vector<std::int32_t> heads = problem.grids.counts(problem.heads);
  for (std::size_t place = 0; place < heads.size(); ++place) {
    const TileGrid& grid = problem.grids.distinct()[place];
    for (QTile q{0}; q.value < grid.q_tiles(); ++q) {
      literals += std::int64_t{heads[place]} * rounds * at_most_one_literals(grid.contributions(q));
    }
  }
  for (const std::vector<std::size_t>& parts : added_in_turn(problem, chains)) {
    std::vector<std::int32_t> lengths;
    lengths.reserve(parts.size());
    for (const std::size_t chain : parts)
      lengths.push_back(chains[chain].length);
    literals += ends_literals(std::move(lengths), rounds);
  }
  if (symmetry == Symmetry::left) return literals;
  for (const auto& [first, second] : ordered_chains(problem, chains))
    literals += order_literals(chains[first], chains[second], rounds);
  return literals;
}

int RoundCnf::start(std::size_t chain, std::int32_t round) const {
  return first_variable_[chain] + round;
}
int RoundCnf::active(std::size_t chain, std::int32_t round) const {
  return first_variable_[chain] + rounds_ + round;
}
int RoundCnf::task(std::size_t chain, std::int32_t k, std::int32_t round) const {
  return first_variable_[chain] + rounds_ * (2 + k) + round;
}
std::int32_t RoundCnf::last_start(std::size_t chain) const {
  return rounds_ - chains_[chain].length;
}

void RoundCnf::add(std::initializer_list<int> clause) {
  cnf_.literals.insert(cnf_.literals.end(), clause);
  cnf_.literals.push_back(0);
  ++cnf_.clauses;
}
void RoundCnf::add(const std::vector<int>& clause) {
  cnf_.literals.insert(cnf_.literals.end(), clause.begin(), clause.end());
  cnf_.literals.push_back(0);
  ++cnf_.clauses;
}

void RoundCnf::at_most_one(const std::vector<int>& literals) {
  if (std::ssize(literals) > kPairwise) return at_most(1, literals);
  for (std::size_t first = 0; first < literals.size(); ++first) {
    for (std::size_t second = first + 1; second < literals.size(); ++second)
      add({-literals[first], -literals[second]});
  }
}

/// A sequential counter: counted[k] after literal i says that more than k of the first i are true.
/// Source: Sinz 2005.
void RoundCnf::at_most(std::int32_t most, const std::vector<int>& literals) {
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

/// One start, and active in exactly the rounds that follow it.
void RoundCnf::place_chain(std::size_t chain) {
  const std::int32_t length = chains_[chain].length;
  std::vector<int> starts;
  for (std::int32_t round = 0; round < rounds_; ++round) {
    if (round <= last_start(chain)) {
      starts.push_back(start(chain, round));
    } else {
      add({-start(chain, round)});
    }
  }
  add(starts);
  at_most_one(starts);
  for (std::int32_t round = 0; round < rounds_; ++round) {
    std::vector<int> covering = {-active(chain, round)};
    for (std::int32_t from = std::max(0, round - length + 1);
         from <= std::min(round, last_start(chain)); ++from) {
      covering.push_back(start(chain, from));
      add({-start(chain, from), active(chain, round)});
    }
    add(covering);
  }
}

/// Each task has exactly one round, and each active round exactly one task.
void RoundCnf::place_tasks(std::size_t chain) {
  const std::int32_t length = chains_[chain].length;
  for (std::int32_t k = 0; k < length; ++k) {
    std::vector<int> rounds;
    rounds.reserve(at(rounds_));
    for (std::int32_t round = 0; round < rounds_; ++round) {
      rounds.push_back(task(chain, k, round));
      add({-task(chain, k, round), active(chain, round)});
    }
    add(rounds);
    at_most_one(rounds);
  }
  for (std::int32_t round = 0; round < rounds_; ++round) {
    std::vector<int> tasks;
    tasks.reserve(at(length) + 1);
    for (std::int32_t k = 0; k < length; ++k)
      tasks.push_back(task(chain, k, round));
    at_most_one(tasks);
    tasks.push_back(-active(chain, round));
    add(tasks);
  }
}

void RoundCnf::separate_contributions(const Stop& stop) {
  std::map<std::pair<Head, QTile>, std::vector<std::pair<std::size_t, std::int32_t>>> tasks;
  for (std::size_t chain = 0; chain < chains_.size(); ++chain) {
    std::int32_t k = 0;
    for (const Task& task : tasks_[chain])
      tasks[{task.head, task.q}].emplace_back(chain, k++);
  }
  for (const auto& [tile, contributions] : tasks) {
    if (stops(stop)) return;
    for (std::int32_t round = 0; round < rounds_; ++round) {
      std::vector<int> literals;
      for (const auto& [chain, k] : contributions)
        literals.push_back(task(chain, k, round));
      at_most_one(literals);
    }
  }
}

void RoundCnf::separate_ends() {
  for (const std::vector<std::size_t>& parts : added_in_turn(problem_, chains_)) {
    for (std::int32_t round = 0; round < rounds_; ++round) {
      std::vector<int> ending;
      for (const std::size_t chain : parts) {
        const std::int32_t first = round + 1 - chains_[chain].length;
        if (first >= 0) ending.push_back(start(chain, first));
      }
      at_most_one(ending);
    }
  }
}

void RoundCnf::bound_sms(const Stop& stop) {
  for (std::int32_t round = 0; round < rounds_; ++round) {
    if (stops(stop)) return;
    std::vector<int> literals;
    literals.reserve(chains_.size());
    for (std::size_t chain = 0; chain < chains_.size(); ++chain)
      literals.push_back(active(chain, round));
    at_most(problem_.sms, literals);
  }
}

void RoundCnf::order_starts(std::size_t first, std::size_t second) {
  for (std::int32_t round = 0; round <= last_start(second); ++round) {
    std::vector<int> clause = {-start(second, round)};
    for (std::int32_t from = 0; from <= std::min(round, last_start(first)); ++from)
      clause.push_back(start(first, from));
    add(clause);
  }
}

RoundTimes RoundCnf::times(const std::function<bool(int)>& is_true) const {
  RoundTimes times;
  for (std::size_t chain = 0; chain < chains_.size(); ++chain) {
    for (std::int32_t k = 0; k < chains_[chain].length; ++k) {
      for (std::int32_t round = 0; round < rounds_; ++round) {
        if (is_true(task(chain, k, round))) times.push_back({tasks_[chain][at(k)], round});
      }
    }
  }
  return times;
}

std::string RoundCnf::dimacs() const {
  std::string text = "c stagger: do " + std::to_string(rounds_) + " rounds suffice?\n";
  const auto name = [&](int variable, const std::string& meaning) {
    text += "c " + std::to_string(variable) + " = " + meaning + "\n";
  };
  for (std::size_t chain = 0; chain < chains_.size(); ++chain) {
    const auto place = [](Head head, KvTile kv) {
      return " head " + std::to_string(head.value) + " kv " + std::to_string(kv.value);
    };
    const auto& [head, kv, length] = chains_[chain];
    for (std::int32_t round = 0; round < rounds_; ++round) {
      const std::string in_round = " round " + std::to_string(round);
      name(start(chain, round), "start" + place(head, kv) + in_round);
      for (std::int32_t k = 0; k < length; ++k) {
        const Task& each = tasks_[chain][at(k)];
        name(task(chain, k, round),
             "task" + place(each.head, kv) + " q " + std::to_string(each.q.value) + in_round);
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
