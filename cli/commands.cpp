#include "cli/commands.hpp"

#include "cli/error_code.hpp"

#include <array>

namespace stagger::cli {

extern const Command kList;
extern const Command kShow;
extern const Command kAnalyze;
extern const Command kCompare;
extern const Command kAdvise;
extern const Command kVerify;
extern const Command kExport;
extern const Command kRun;
extern const Command kCalibrate;
extern const Command kPredict;
extern const Command kFormulas;
extern const Command kOptimize;
extern const Command kBench;
extern const Command kBlock;
extern const Command kOverlap;
extern const Command kLint;
extern const Command kCompletion;
extern const Command kMan;
extern const Command kHelp;
extern const Command kVersion;

namespace {

constexpr std::array kCommands = {&kList,     &kShow,       &kAnalyze, &kCompare,   &kAdvise,
                                  &kVerify,   &kExport,     &kRun,     &kCalibrate, &kPredict,
                                  &kFormulas, &kOptimize,   &kBench,   &kBlock,     &kOverlap,
                                  &kLint,     &kCompletion, &kMan,     &kHelp,      &kVersion};

}  // namespace

ExitCode exit_code(dag::Verdict verdict) {
  switch (verdict) {
    case dag::Verdict::ok:
      return kHolds;
    case dag::Verdict::invalid:
      return kViolated;
    case dag::Verdict::deadlock:
      break;
  }
  return kDeadlock;
}

ExitCode exit_code(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::usage:
    case ErrorKind::unsupported:
    case ErrorKind::limit:
      return kUsage;
    case ErrorKind::device:
      return kInternal;
    case ErrorKind::invalid_input:
    case ErrorKind::io:
      break;
  }
  return kBadFile;
}

ExitCode exit_code(const workbench::Summary& summary) {
  const ExitCode code = exit_code(summary.verification.verdict);
  return code == kHolds && !summary.formula_holds() ? kViolated : code;
}

std::span<const Command* const> commands() {
  return kCommands;
}

}  // namespace stagger::cli
