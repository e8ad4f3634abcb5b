#include "tests/support/drat.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

namespace stagger::test {
namespace {

using Clause = std::set<int>;

class Checker {
 public:
  explicit Checker(const std::vector<int>& formula) {
    Clause clause;
    for (const int literal : formula) {
      if (literal != 0) {
        clause.insert(literal);
      } else {
        ++clauses_[clause];
        clause.clear();
      }
    }
  }

  /// Whether assuming a clause's opposite leads to a conflict by unit propagation alone.
  [[nodiscard]] bool follows(const Clause& clause) const {
    std::set<int> holds;
    for (const int literal : clause)
      holds.insert(-literal);
    for (bool changed = true; changed;) {
      changed = false;
      for (const auto& [other, count] : clauses_) {
        if (std::any_of(other.begin(), other.end(),
                        [&](int literal) { return holds.contains(literal); }))
          continue;
        int open = 0;
        int left = 0;
        for (const int literal : other) {
          if (holds.contains(-literal)) continue;
          ++open;
          left = literal;
        }
        if (open == 0) return true;
        if (open == 1) changed = holds.insert(left).second;
        if (changed) break;
      }
    }
    return false;
  }

  void add(const Clause& clause) { ++clauses_[clause]; }
  void remove(const Clause& clause) {
    const auto found = clauses_.find(clause);
    if (found != clauses_.end() && --found->second == 0) clauses_.erase(found);
  }

 private:
  std::map<Clause, int> clauses_;
};

}  // namespace

bool refutes(const std::vector<int>& formula, const std::string& proof) {
  Checker checker(formula);
  std::istringstream lines(proof);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    const bool deletes = line.starts_with("d ");
    if (deletes) words.ignore(2);
    Clause clause;
    for (int literal = 0; words >> literal && literal != 0;)
      clause.insert(literal);
    if (deletes) {
      checker.remove(clause);
      continue;
    }
    if (!checker.follows(clause)) return false;
    if (clause.empty()) return true;
    checker.add(clause);
  }
  return false;
}

}  // namespace stagger::test
