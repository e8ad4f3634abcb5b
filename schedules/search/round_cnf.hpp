#pragma once

#include "core/problem.hpp"
#include "schedules/search/chain.hpp"
#include "schedules/search/round_times.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace stagger::search {

/// A formula in conjunctive normal form, as SAT solvers take it: literals ±1 … ±variables, a 0
/// after each clause.
struct Cnf {
  int variables = 0;
  std::int64_t clauses = 0;
  std::vector<int> literals;
};

/// Literals of a formula at most, the zeros too: what a solver holds in some gigabytes.
inline constexpr std::int64_t kMostLiterals = 100'000'000;

/// What is made of parts that are alike, and of equal rows of a part.
enum class Symmetry {
  broken,  ///< their starts are ordered: of tables that differ by names alone one is left
  left,    ///< every table is a model
};

/// "Do T rounds suffice?" in the slot model, as a formula. A model of it is a table whose
/// makespan is at most T; if it has none, no table has.
///
/// Variables: start(chain, round); task(chain, k, round) for the k-th of tasks_of(chain);
/// active(chain, round). Each chain starts once and is active in the rounds that follow; each task
/// has one round, in which its chain is active, and has it for itself; no two tasks of a dQ tile
/// share one; no two chains end in one that are added to one dK and dV in turn; at most S chains
/// are active at once (intervals of which at most S overlap fit on S lanes). Parts, and equal rows
/// within a part, are interchangeable and ordered by their starts; where parts are combined in
/// order, those of a KV head, and rows that are equal in all of them.
/// O(tasks * T + chains * T * (S + T)) literals.
class RoundCnf {
 public:
  /// Requires T >= 1 and at least one task. Throws Error{limit} above kMostLiterals, before it asks
  /// for memory. Where `stop` is true the formula is left incomplete.
  RoundCnf(
      const Problem& problem, std::int32_t rounds, Symmetry symmetry = Symmetry::broken,
      const Stop& stop = [] { return false; });

  [[nodiscard]] bool complete() const { return complete_; }
  [[nodiscard]] const Cnf& cnf() const { return cnf_; }
  /// Literals of the formula and the zeros after its clauses, counted without building it; if they
  /// are above kMostLiterals by far, only that. Requires T >= 1. O(tasks log tasks).
  [[nodiscard]] static std::int64_t literals(const Problem& problem, std::int32_t rounds,
                                             Symmetry symmetry = Symmetry::broken);

  /// The schedule of a model: `is_true(variable)`.
  [[nodiscard]] RoundTimes times(const std::function<bool(int)>& is_true) const;
  /// DIMACS with a comment for every start and task variable: `c 1 = start head 0 kv 0 round 0`, of
  /// a chain by the first of its heads.
  [[nodiscard]] std::string dimacs() const;

 private:
  [[nodiscard]] int start(std::size_t chain, std::int32_t round) const;
  [[nodiscard]] int task(std::size_t chain, std::int32_t k, std::int32_t round) const;
  [[nodiscard]] int active(std::size_t chain, std::int32_t round) const;
  [[nodiscard]] std::int32_t last_start(std::size_t chain) const;

  /// Whether to leave the formula incomplete.
  [[nodiscard]] bool stops(const Stop& stop);
  void add(std::initializer_list<int> clause);
  void add(const std::vector<int>& clause);
  void at_most_one(const std::vector<int>& literals);
  void at_most(std::int32_t most, const std::vector<int>& literals);
  void place_chain(std::size_t chain);
  void place_tasks(std::size_t chain);
  void separate_contributions(const Stop& stop);
  void separate_ends();
  void bound_sms(const Stop& stop);
  void order_starts(std::size_t first, std::size_t second);

  const Problem& problem_;
  std::int32_t rounds_;
  std::vector<Chain> chains_;
  std::vector<std::vector<Task>> tasks_;  ///< by chain
  std::vector<int> first_variable_;       ///< by chain
  Cnf cnf_;
  bool complete_ = true;
  std::int64_t next_asked_ = 0;  ///< literals when it is asked again whether to stop
};

}  // namespace stagger::search
