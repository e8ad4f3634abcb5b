#include "schedules/search/round_files.hpp"

#include "core/error.hpp"
#include "schedules/search/chain.hpp"
#include "schedules/search/round_cnf.hpp"
#include "schedules/search/round_times.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <numeric>
#include <sstream>
#include <vector>

namespace stagger::search {
namespace {

std::string joined(std::initializer_list<std::int64_t> parts) {
  std::string text;
  for (const std::int64_t part : parts)
    text += "_" + std::to_string(part);
  return text;
}

std::string start_name(const Chain& chain, std::int32_t round) {
  return "start" + joined({chain.head.value, chain.kv.value, round});
}

std::string task_name(const Task& task, std::int32_t round) {
  return "task" + joined({task.head.value, task.kv.value, task.q.value, round});
}

/// A task has about so many terms for every round, or in MiniZinc's data.
constexpr std::int64_t kTermsEach = 5;

/// Requires rounds >= 1.
void expect_fits(const Problem& problem, std::int32_t rounds) {
  if (problem.tasks() > kMostTerms / kTermsEach / rounds) {
    throw Error(ErrorKind::limit, std::to_string(problem.tasks()) + " tasks in " +
                                      std::to_string(rounds) +
                                      " rounds: the question would have more than " +
                                      std::to_string(kMostTerms) + " terms");
  }
}

class LinearProgram {
 public:
  LinearProgram(const Problem& problem, std::int32_t rounds)
      : problem_(problem), rounds_(rounds), chains_(chains_of(problem)) {}

  std::string write() {
    text_ = "\\ stagger: do " + std::to_string(rounds_) + " rounds suffice?\nMinimize\n obj: 0 " +
            start_name(chains_.front(), 0) + "\nSubject To\n";
    for (const Chain& chain : chains_)
      place(chain);
    separate_contributions();
    separate_ends();
    bound_sms();
    text_ += "Binary\n";
    for (const Chain& chain : chains_)
      name_variables(chain);
    text_ += "End\n";
    return std::move(text_);
  }

 private:
  /// Starts of a chain that cover a round.
  [[nodiscard]] std::vector<std::string> covering(const Chain& chain, std::int32_t round) const {
    std::vector<std::string> names;
    const std::int32_t last = std::min(round, rounds_ - chain.length);
    for (std::int32_t start = std::max(0, round - chain.length + 1); start <= last; ++start)
      names.push_back(start_name(chain, start));
    return names;
  }

  void row(const std::vector<std::string>& plus, const std::vector<std::string>& minus,
           const std::string& relation) {
    if (plus.empty() && minus.empty()) return;
    text_ += " r" + std::to_string(++rows_) + ":";
    for (const std::string& name : plus)
      text_ += " + " + name;
    for (const std::string& name : minus)
      text_ += " - " + name;
    text_ += "\n  " + relation + "\n";  // lines stay short enough for every reader
  }

  /// One start; one round a task; in every round one task if the chain covers it, else none.
  void place(const Chain& chain) {
    std::vector<std::string> starts;
    starts.reserve(static_cast<std::size_t>(rounds_));
    for (std::int32_t round = 0; round + chain.length <= rounds_; ++round)
      starts.push_back(start_name(chain, round));
    row(starts, {}, "= 1");
    const std::vector<Task> tasks = tasks_of(problem_, chain);
    for (const Task& task : tasks) {
      std::vector<std::string> rounds;
      rounds.reserve(static_cast<std::size_t>(rounds_));
      for (std::int32_t round = 0; round < rounds_; ++round)
        rounds.push_back(task_name(task, round));
      row(rounds, {}, "= 1");
    }
    for (std::int32_t round = 0; round < rounds_; ++round) {
      std::vector<std::string> running;
      running.reserve(tasks.size());
      for (const Task& task : tasks)
        running.push_back(task_name(task, round));
      row(running, covering(chain, round), "= 0");
    }
  }

  void name_variables(const Chain& chain) {
    for (std::int32_t round = 0; round + chain.length <= rounds_; ++round)
      text_ += " " + start_name(chain, round) + "\n";
    for (const Task& task : tasks_of(problem_, chain)) {
      for (std::int32_t round = 0; round < rounds_; ++round)
        text_ += " " + task_name(task, round) + "\n";
    }
  }

  void separate_contributions() {
    for (Head head{0}; head.value < problem_.heads; ++head) {
      for (QTile q{0}; q.value < problem_.q_tiles(); ++q) {
        if (problem_.contributions(head, q) < 2) continue;
        for (std::int32_t round = 0; round < rounds_; ++round) {
          std::vector<std::string> tasks;
          for (KvTile kv{0}; kv.value < problem_.kv_tiles(); ++kv) {
            if (problem_.live({head, kv, q})) tasks.push_back(task_name({head, kv, q}, round));
          }
          row(tasks, {}, "<= 1");
        }
      }
    }
  }

  /// Of chains that are added to one dK and dV in turn no two end in a round.
  void separate_ends() {
    for (const std::vector<std::size_t>& parts : added_in_turn(problem_, chains_)) {
      for (std::int32_t round = 0; round < rounds_; ++round) {
        std::vector<std::string> ending;
        for (const std::size_t chain : parts) {
          const std::int32_t first = round + 1 - chains_[chain].length;
          if (first >= 0) ending.push_back(start_name(chains_[chain], first));
        }
        if (ending.size() > 1) row(ending, {}, "<= 1");
      }
    }
  }

  void bound_sms() {
    if (std::ssize(chains_) <= problem_.sms) return;
    for (std::int32_t round = 0; round < rounds_; ++round) {
      std::vector<std::string> running;
      for (const Chain& chain : chains_) {
        const std::vector<std::string> starts = covering(chain, round);
        running.insert(running.end(), starts.begin(), starts.end());
      }
      row(running, {}, "<= " + std::to_string(problem_.sms));
    }
  }

  const Problem& problem_;
  std::int32_t rounds_;
  std::vector<Chain> chains_;
  std::int64_t rows_ = 0;
  std::string text_;
};

/// Which dK and dV every chain is added to: one number for those that are added in turn, a number
/// of its own for every other chain.
std::vector<std::int64_t> accumulators(const Problem& problem, const std::vector<Chain>& chains) {
  std::vector<std::int64_t> numbers(chains.size());
  std::iota(numbers.begin(), numbers.end(), 1);
  for (const std::vector<std::size_t>& parts : added_in_turn(problem, chains)) {
    for (const std::size_t chain : parts)
      numbers[chain] = numbers[parts.front()];
  }
  return numbers;
}

[[noreturn]] void reject(const std::string& source, const std::string& what) {
  throw Error(ErrorKind::invalid_input, source + ": " + what);
}

/// The variables that a SAT solver's `v` lines make true.
std::vector<bool> read_model(std::string_view text, const std::string& source, int variables) {
  std::vector<bool> model(static_cast<std::size_t>(variables) + 1, false);
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("s UNSAT")) reject(source, "the solver says that no table fits");
    if (!line.starts_with("v ")) continue;
    std::istringstream words(line.substr(2));
    for (std::int64_t literal = 0; words >> literal && literal != 0;) {
      if (literal < -variables || literal > variables) {
        reject(source, "literal " + std::to_string(literal) + " is beyond the formula's " +
                           std::to_string(variables) + " variables: another --rounds?");
      }
      if (literal > 0) model[static_cast<std::size_t>(literal)] = true;
    }
  }
  return model;
}

/// A line's task and round: `task H K Q S`, or a variable task_H_K_Q_S that is 1.
bool read_task(const std::string& line, std::array<std::int32_t, 4>& place) {
  const std::size_t word = line.find("task");
  if (word == std::string::npos) return false;
  const bool variable = line.compare(word, 5, "task_") == 0;
  std::string numbers = line.substr(word + 4);
  std::replace(numbers.begin(), numbers.end(), '_', ' ');
  std::istringstream words(numbers);
  auto& [head, kv, q, round] = place;
  if (!(words >> head >> kv >> q >> round)) return false;
  if (!variable) return true;
  // Solvers put marks and bounds around the value: the first number is it.
  for (std::string next; words >> next;) {
    char* end = nullptr;
    const double value = std::strtod(next.c_str(), &end);
    if (end != next.c_str() && *end == '\0') return value > 0.5;
  }
  return false;
}

}  // namespace

std::string write_minizinc_model() {
  return R"(% stagger: do `rounds` rounds suffice? (slot model)
% A task is one tile of one head. Tasks of a chain (one KV tile of the heads that share it) take
% consecutive rounds on one SM; tasks of a dQ tile (one Q tile of one head) take different rounds,
% and chains that are added to one dK and dV in turn end in different ones.
include "all_different.mzn";
include "cumulative.mzn";

int: rounds;
int: sms;
int: chains;
int: tasks;
array[1..chains] of int: length;
array[1..chains] of int: dkv;
array[1..tasks] of 1..chains: chain;
array[1..tasks] of int: head;
array[1..tasks] of int: kv;
array[1..tasks] of int: q;

array[1..chains] of var 0..rounds - 1: start;
array[1..tasks] of var 0..rounds - 1: round;

constraint forall(c in 1..chains)(start[c] + length[c] <= rounds);
constraint forall(t in 1..tasks)(
  round[t] >= start[chain[t]] /\ round[t] < start[chain[t]] + length[chain[t]]);
constraint forall(c in 1..chains)(
  all_different([round[t] | t in 1..tasks where chain[t] = c]));
constraint forall(h in array2set(head), i in array2set(q))(
  all_different([round[t] | t in 1..tasks where head[t] = h /\ q[t] = i]));
constraint forall(a in array2set(dkv))(
  all_different([start[c] + length[c] | c in 1..chains where dkv[c] = a]));
constraint cumulative(start, length, [1 | c in 1..chains], sms);

solve satisfy;

output ["task \(head[t]) \(kv[t]) \(q[t]) \(round[t])\n" | t in 1..tasks];
)";
}

std::string write_minizinc_data(const Problem& problem, std::int32_t rounds) {
  expect_fits(problem, 1);
  const std::vector<Chain> chains = chains_of(problem);
  const std::vector<std::int64_t> dkv = accumulators(problem, chains);
  std::array<std::string, 6> arrays;  // length, dkv, chain, head, kv, q
  const auto add = [&](std::size_t array, std::int64_t value) {
    arrays[array] += (arrays[array].empty() ? "" : ", ") + std::to_string(value);
  };
  for (std::size_t chain = 0; chain < chains.size(); ++chain) {
    add(0, chains[chain].length);
    add(1, dkv[chain]);
    for (const Task& task : tasks_of(problem, chains[chain])) {
      add(2, static_cast<std::int64_t>(chain) + 1);
      add(3, task.head.value);
      add(4, task.kv.value);
      add(5, task.q.value);
    }
  }
  return "rounds = " + std::to_string(rounds) + ";\nsms = " + std::to_string(problem.sms) +
         ";\nchains = " + std::to_string(chains.size()) +
         ";\ntasks = " + std::to_string(problem.tasks()) + ";\nlength = [" + arrays[0] +
         "];\ndkv = [" + arrays[1] + "];\nchain = [" + arrays[2] + "];\nhead = [" + arrays[3] +
         "];\nkv = [" + arrays[4] + "];\nq = [" + arrays[5] + "];\n";
}

std::string write_linear_program(const Problem& problem, std::int32_t rounds) {
  expect_fits(problem, rounds);
  return LinearProgram(problem, rounds).write();
}

Table read_round_solution(std::string_view text, const std::string& source, const Problem& problem,
                          std::int32_t rounds) {
  const std::string whole(text);
  if (whole.starts_with("v ") || whole.find("\nv ") != std::string::npos ||
      whole.find("s UNSAT") != std::string::npos) {
    const RoundCnf cnf(problem, rounds);
    const std::vector<bool> model = read_model(text, source, cnf.cnf().variables);
    return table_of(problem, cnf.times([&](int variable) {
      return bool{model[static_cast<std::size_t>(variable)]};
    }),
                    source);
  }
  RoundTimes times;
  std::istringstream lines(whole);
  std::array<std::int32_t, 4> place{};
  for (std::string line; std::getline(lines, line);) {
    if (!read_task(line, place)) continue;
    const auto& [head, kv, q, round] = place;
    times.push_back({{Head{head}, KvTile{kv}, QTile{q}}, round});
  }
  if (times.empty()) reject(source, "has no `v`, `task` or task_… line with a solver's answer");
  return table_of(problem, std::move(times), source);
}

}  // namespace stagger::search
