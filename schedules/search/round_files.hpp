#pragma once

#include "core/table.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace stagger::search {

// "Do T rounds suffice?" for other people's solvers, and their answers. The slot model: every task
// takes a round, the rounds of a chain follow one another, no two tasks of a dQ tile share one, no
// two chains that are added to one dK and dV in turn end in one, and at most S chains run at once.
// DIMACS is round_cnf.hpp's. All throw Error{limit} where a text would have more than kMostTerms
// terms, before they ask for memory, and require a task.

inline constexpr std::int64_t kMostTerms = 20'000'000;  ///< some 25 bytes each

/// The model in MiniZinc; the data is write_minizinc_data's.
[[nodiscard]] std::string write_minizinc_model();
[[nodiscard]] std::string write_minizinc_data(const Problem& problem, std::int32_t rounds);

/// The model and its data in CPLEX LP format: start_head_kv_round, of a chain's first head, and
/// task_head_kv_q_round are binary.
[[nodiscard]] std::string write_linear_program(const Problem& problem, std::int32_t rounds);

/// Reads a solver's answer: a SAT solver's `v` lines for RoundCnf(problem, rounds), MiniZinc's
/// `task HEAD KV Q ROUND` lines, or lines that name a variable task_HEAD_KV_Q_ROUND and its value 1
/// (LP solvers' solution files). Lanes and ranks follow from the rounds. The table may be wrong:
/// verify it. Throws Error{invalid_input} if the text has no answer, or one that gives a task no
/// round, two, or a chain rounds that do not follow one another or more than S chains at once.
[[nodiscard]] Table read_round_solution(std::string_view text, const std::string& source,
                                        const Problem& problem, std::int32_t rounds);

}  // namespace stagger::search
