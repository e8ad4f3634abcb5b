#include "schedules/search/round_files.hpp"

#include "core/error.hpp"
#include "schedules/search/chain.hpp"
#include "schedules/search/round_cnf.hpp"
#include "schedules/search/round_times.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
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

std::string task_name(const Chain& chain, QTile q, std::int32_t round) {
  return "task" + joined({chain.head.value, chain.kv.value, q.value, round});
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
    const std::vector<QTile> live = problem_.grid_of(chain.head).live_q(chain.kv);
    for (const QTile q : live) {
      std::vector<std::string> tasks;
      tasks.reserve(static_cast<std::size_t>(rounds_));
      for (std::int32_t round = 0; round < rounds_; ++round)
        tasks.push_back(task_name(chain, q, round));
      row(tasks, {}, "= 1");
    }
    for (std::int32_t round = 0; round < rounds_; ++round) {
      std::vector<std::string> tasks;
      tasks.reserve(live.size());
      for (const QTile q : live)
        tasks.push_back(task_name(chain, q, round));
      row(tasks, covering(chain, round), "= 0");
    }
  }

  void name_variables(const Chain& chain) {
    for (std::int32_t round = 0; round + chain.length <= rounds_; ++round)
      text_ += " " + start_name(chain, round) + "\n";
    for (const QTile q : problem_.grid_of(chain.head).live_q(chain.kv)) {
      for (std::int32_t round = 0; round < rounds_; ++round)
        text_ += " " + task_name(chain, q, round) + "\n";
    }
  }

  void separate_contributions() {
    for (Head head{0}; head.value < problem_.heads; ++head) {
      for (QTile q{0}; q.value < problem_.q_tiles(); ++q) {
        if (problem_.contributions(head, q) < 2) continue;
        for (std::int32_t round = 0; round < rounds_; ++round) {
          std::vector<std::string> tasks;
          for (const Chain& chain : chains_) {
            if (chain.head == head && problem_.live({head, chain.kv, q}))
              tasks.push_back(task_name(chain, q, round));
          }
          row(tasks, {}, "<= 1");
        }
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
% A task is one tile of one head. Tasks of a chain (one KV tile of one head) take consecutive rounds
% on one SM; tasks of a dQ tile (one Q tile of one head) take different rounds.
include "all_different.mzn";
include "cumulative.mzn";

int: rounds;
int: sms;
int: chains;
int: tasks;
array[1..chains] of int: length;
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
constraint cumulative(start, length, [1 | c in 1..chains], sms);

solve satisfy;

output ["task \(head[t]) \(kv[t]) \(q[t]) \(round[t])\n" | t in 1..tasks];
)";
}

std::string write_minizinc_data(const Problem& problem, std::int32_t rounds) {
  expect_fits(problem, 1);
  std::array<std::string, 5> arrays;  // length, chain, head, kv, q
  const auto add = [&](std::size_t array, std::int64_t value) {
    arrays[array] += (arrays[array].empty() ? "" : ", ") + std::to_string(value);
  };
  const std::vector<Chain> chains = chains_of(problem);
  for (std::size_t chain = 0; chain < chains.size(); ++chain) {
    add(0, chains[chain].length);
    for (const QTile q : problem.grid_of(chains[chain].head).live_q(chains[chain].kv)) {
      add(1, static_cast<std::int64_t>(chain) + 1);
      add(2, chains[chain].head.value);
      add(3, chains[chain].kv.value);
      add(4, q.value);
    }
  }
  return "rounds = " + std::to_string(rounds) + ";\nsms = " + std::to_string(problem.sms) +
         ";\nchains = " + std::to_string(chains.size()) +
         ";\ntasks = " + std::to_string(problem.tasks()) + ";\nlength = [" + arrays[0] +
         "];\nchain = [" + arrays[1] + "];\nhead = [" + arrays[2] + "];\nkv = [" + arrays[3] +
         "];\nq = [" + arrays[4] + "];\n";
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
