#pragma once

#include "schedules/search/round_cnf.hpp"

#include <functional>
#include <string>
#include <vector>

namespace stagger::search {

enum class Satisfiable { yes, no, unknown };

struct SatAnswer {
  Satisfiable verdict = Satisfiable::unknown;
  std::vector<bool> model;  ///< by variable (0 unused), if satisfiable
};

/// Whether this build has a SAT solver (CaDiCaL).
[[nodiscard]] bool has_sat_solver();

/// `CaDiCaL 1.7.4`; empty without one.
[[nodiscard]] std::string sat_solver();

/// When to give up.
struct SatLimits {
  std::int64_t conflicts = -1;  ///< of the solver; -1: no limit
  std::function<bool()> stop;   ///< asked often
};

/// Where a proof is while this process writes it: beside its path, in a file of its own.
[[nodiscard]] std::string unfinished_proof(const std::string& path);

/// Asks the solver until it knows or has to give up. A `proof` path, if not empty, receives a DRAT
/// proof in text if the answer is No, whole or not at all. Throws Error{unsupported} without a
/// solver, Error{io} if the proof can't be written.
[[nodiscard]] SatAnswer solve(const Cnf& cnf, const SatLimits& limits,
                              const std::string& proof = {});

}  // namespace stagger::search
