#include "schedules/search/sat.hpp"

#include "core/error.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <optional>
#include <system_error>
#include <unistd.h>
#include <utility>

#ifdef STAGGER_WITH_CADICAL
#include <cadical.hpp>
#endif

namespace stagger::search {

std::string unfinished_proof(const std::string& path) {
  // A short name: the path's own may be as long as names can be.
  const std::string name = ".stagger." + std::to_string(std::hash<std::string>()(path)) + "." +
                           std::to_string(::getpid()) + ".drat";
  return std::filesystem::path(path).replace_filename(name);
}

#ifdef STAGGER_WITH_CADICAL

namespace {

class Stopper : public CaDiCaL::Terminator {
 public:
  explicit Stopper(const std::function<bool()>& stop) : stop_(stop) {}
  bool terminate() override { return stop_(); }

 private:
  const std::function<bool()>& stop_;
};

/// A proof under a temporary name, until it is known to be one: an answer of another kind leaves
/// the proof of an earlier question as it was.
class ProofFile {
 public:
  explicit ProofFile(const std::string& path)
      : path_(path),
        temporary_(unfinished_proof(path)),
        stream_(std::fopen(temporary_.c_str(), "wx")) {
    if (stream_ == nullptr) fail();
  }
  ~ProofFile() {
    if (stream_ != nullptr) std::fclose(stream_);
    if (!kept_) std::remove(temporary_.c_str());
  }
  ProofFile(const ProofFile&) = delete;
  ProofFile& operator=(const ProofFile&) = delete;

  [[nodiscard]] std::FILE* stream() const { return stream_; }

  void keep() {
    const bool written = std::ferror(stream_) == 0;
    const bool closed = std::fclose(std::exchange(stream_, nullptr)) == 0;
    if (!written || !closed) fail();
    // A proof that is replaced keeps its permissions.
    std::error_code absent;
    const auto permissions = std::filesystem::status(path_, absent).permissions();
    if (permissions != std::filesystem::perms::unknown && !absent) {
      std::filesystem::permissions(temporary_, permissions, absent);
    }
    kept_ = std::rename(temporary_.c_str(), path_.c_str()) == 0;
    if (!kept_) fail();
  }

 private:
  [[noreturn]] void fail() const { throw Error(ErrorKind::io, path_ + ": cannot be written"); }

  std::string path_;
  std::string temporary_;
  std::FILE* stream_;
  bool kept_ = false;
};

}  // namespace

bool has_sat_solver() {
  return true;
}

std::string sat_solver() {
  return std::string("CaDiCaL ") + CaDiCaL::Solver::version();
}

SatAnswer solve(const Cnf& cnf, const SatLimits& limits, const std::string& proof) {
  CaDiCaL::Solver solver;
  solver.set("quiet", 1);
  solver.set("binary", 0);
  std::optional<ProofFile> file;
  if (!proof.empty()) solver.trace_proof(file.emplace(proof).stream(), proof.c_str());
  Stopper stopper(limits.stop);
  solver.connect_terminator(&stopper);
  // Taking a large formula in takes seconds; the solver does not ask meanwhile.
  constexpr std::size_t kOften = std::size_t{1} << 18;
  for (std::size_t place = 0; place < cnf.literals.size(); ++place) {
    if (place % kOften == 0 && limits.stop()) return {};
    solver.add(cnf.literals[place]);
  }
  if (limits.conflicts >= 0) {
    solver.limit("conflicts", static_cast<int>(std::min<std::int64_t>(limits.conflicts, 1 << 30)));
  }
  const int verdict = solver.solve();
  solver.disconnect_terminator();
  if (file) solver.close_proof_trace();
  SatAnswer answer;
  if (verdict == 20) {
    answer.verdict = Satisfiable::no;
    if (file) file->keep();
  }
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

std::string sat_solver() {
  return "";
}

SatAnswer solve(const Cnf&, const SatLimits&, const std::string&) {
  throw Error(ErrorKind::unsupported, "this build has no SAT solver (libcadical-dev)");
}

#endif

}  // namespace stagger::search
