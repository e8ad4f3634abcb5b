#include "schedules/search/sat.hpp"

#include "core/error.hpp"

#include <algorithm>

#ifdef STAGGER_WITH_CADICAL
#include <cadical.hpp>
#endif

namespace stagger::search {

#ifdef STAGGER_WITH_CADICAL

namespace {

class Stopper : public CaDiCaL::Terminator {
 public:
  explicit Stopper(const std::function<bool()>& stop) : stop_(stop) {}
  bool terminate() override { return stop_(); }

 private:
  const std::function<bool()>& stop_;
};

}  // namespace

bool has_sat_solver() {
  return true;
}

SatAnswer solve(const Cnf& cnf, const SatLimits& limits, const std::string& proof) {
  CaDiCaL::Solver solver;
  solver.set("quiet", 1);
  solver.set("binary", 0);
  if (!proof.empty() && !solver.trace_proof(proof.c_str())) {
    throw Error(ErrorKind::io, proof + ": cannot be written");
  }
  Stopper stopper(limits.stop);
  solver.connect_terminator(&stopper);
  for (const int literal : cnf.literals)
    solver.add(literal);
  if (limits.conflicts >= 0) {
    solver.limit("conflicts", static_cast<int>(std::min<std::int64_t>(limits.conflicts, 1 << 30)));
  }
  const int verdict = solver.solve();
  solver.disconnect_terminator();
  if (!proof.empty()) solver.close_proof_trace();
  SatAnswer answer;
  if (verdict == 20) answer.verdict = Satisfiable::no;
  if (verdict != 10) return answer;
  answer.verdict = Satisfiable::yes;
  answer.model.resize(static_cast<std::size_t>(cnf.variables) + 1);
  for (int variable = 1; variable <= cnf.variables; ++variable)
    answer.model[static_cast<std::size_t>(variable)] = solver.val(variable) > 0;
  return answer;
}

#else

bool has_sat_solver() {
  return false;
}

SatAnswer solve(const Cnf&, const SatLimits&, const std::string&) {
  throw Error(ErrorKind::unsupported, "this build has no SAT solver (libcadical-dev)");
}

#endif

}  // namespace stagger::search
