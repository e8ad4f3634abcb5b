#pragma once

#include "core/timeline.hpp"
#include "dag/bounds.hpp"
#include "dag/lemma1.hpp"
#include "dag/verify.hpp"
#include "schedules/schedule.hpp"
#include "sim/bubbles.hpp"
#include "sim/memory.hpp"
#include "sim/simulate.hpp"
#include "workbench/time_model.hpp"

#include <optional>
#include <string>

namespace stagger::workbench {

/// A table, where it is from, and the timing model it is looked at in.
struct Source {
  Table table;
  TimeModel model;
  std::optional<schedules::Selection> selection;  ///< absent for a table from a file
};

/// A formula's value beside the simulated makespan.
struct FormulaCheck {
  const schedules::Formula* formula = nullptr;
  Ticks ticks = 0;
  bool holds = false;
};

/// Everything that is known of one table in one timing model. What follows `verification` is
/// there only if the verdict is ok.
struct Analysis {
  Table table;
  TimeModel model;
  std::optional<schedules::Selection> selection;  ///< absent for a table from a file

  dag::Verification verification;
  dag::Bounds bounds;
  std::optional<sim::Simulation> simulation;  ///< by the phases alone
  std::optional<sim::MemoryPlay> memory;      ///< absent if the timing model has no memory
  sim::Bubbles bubbles;                       ///< by the phases alone
  CriticalPath critical_path;         ///< from the graph if it was built, else from the simulation
  std::optional<Ticks> longest_path;  ///< of the graph; absent if the table is too large for one
  dag::Lemma1 lemma1;
  std::optional<FormulaCheck> formula;
  std::optional<bool> optimal;  ///< proved, refuted, or unknown

  [[nodiscard]] bool ok() const { return verification.verdict == dag::Verdict::ok; }
  /// Of the table in its timing model, with the memory if that has one. Requires ok().
  [[nodiscard]] Ticks makespan() const { return memory ? memory->makespan : simulation->makespan; }
};

/// When the last reduction ends: the makespan without the last epilogues, which measured timelines
/// do not show. 0 unless the verdict is ok.
[[nodiscard]] Ticks last_reduction(const Analysis& analysis);

struct AnalysisOptions {
  dag::LockValues lock_values = dag::LockValues::ranks;
  std::int64_t limit = 10'000;  ///< findings of a kind, violating edges
  bool always_build_graph = false;
};

/// Verifies, simulates, bounds and explains a table. The graph is built, and its longest path
/// compared with the simulated makespan, if that is cheap or asked for; a difference is a
/// ContractViolation. Throws Error{limit} if the ticks could overflow.
[[nodiscard]] Analysis analyze(Source source, const AnalysisOptions& options);

}  // namespace stagger::workbench
