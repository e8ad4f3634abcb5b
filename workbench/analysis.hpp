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

#include <cstdint>
#include <optional>
#include <string>

namespace stagger::workbench {

/// A table, where it is from, and the timing model it is looked at in.
struct Source {
  Table table;
  TimeModel model;
  std::optional<schedules::Selection> selection;  ///< absent for a table from elsewhere
};

/// A formula's value beside the simulated makespan.
struct FormulaCheck {
  const schedules::Formula* formula = nullptr;
  std::string text;  ///< the formula's; for chains of several heads, with what stands for m, c, r
  Ticks ticks = 0;
  bool holds = false;
};

/// What of a makespan is above the bound, on the SM that ends last. The four add up to the gap.
struct Gap {
  Ticks packing = 0;     ///< its load beyond the bound; below 0 where that is of traffic
  Ticks contention = 0;  ///< waits for a turn
  Ticks startup = 0;     ///< waits before its first reduction
  Ticks memory = 0;      ///< what the memory makes longer
};

/// What is known of one table in one timing model, but for what has an entry for each slot.
struct Summary {
  std::string name;
  Dispatch dispatch = Dispatch::static_;
  std::int32_t sms = 0;                           ///< that the table is for
  std::optional<schedules::Selection> selection;  ///< absent for a table from elsewhere
  dag::Verification verification;
  dag::Bounds bounds;

  // Only if the verdict is ok:
  Ticks makespan = 0;                     ///< with the memory, if the timing model has one
  Ticks last_reduction = 0;               ///< its end, likewise: what measured timelines show
  Ticks phases = 0;                       ///< the makespan by the phases alone
  std::optional<sim::MemoryPlay> memory;  ///< absent if the timing model has none
  sim::Bubbles bubbles;                   ///< by the phases alone
  std::optional<Ticks> longest_path;  ///< of the graph; absent if the table is too large for one
  dag::Lemma1 lemma1;
  std::optional<FormulaCheck> formula;
  std::optional<bool> optimal;  ///< proved, refuted, or unknown

  /// Whether nothing is wrong with it but that it hangs: its ranks are an order.
  [[nodiscard]] bool ordered() const;
  [[nodiscard]] bool ok() const { return verification.verdict == dag::Verdict::ok; }
  /// Whether the formula that claims this case, if one does, gives the makespan.
  [[nodiscard]] bool formula_holds() const { return !formula || formula->holds; }
  [[nodiscard]] Gap gap() const;
  /// The part of SM time in which nothing runs, 0 to 1.
  [[nodiscard]] double bubble_fraction() const;
};

/// Everything that is known of one table in one timing model.
struct Analysis : Summary {
  Table table;
  TimeModel model;
  /// By the phases alone, if the verdict is ok; its slots are those of the table in steps.
  std::optional<sim::Simulation> simulation;
  /// From the graph if it was built, else simulated; without steps above two million tasks.
  CriticalPath critical_path;
};

struct AnalysisOptions {
  dag::LockValues lock_values = dag::LockValues::ranks;
  std::int64_t limit = 10'000;  ///< findings of a kind, violating edges
  bool always_build_graph = false;
};

/// Throws Error{limit} if a schedule searches and the problem is too large for that.
void expect_searchable(const schedules::Selection& selection, const Problem& problem);

/// Builds a schedule's table; one that searches ends when `stop` says so. Throws Error{unsupported}
/// with the reason if it does not apply.
[[nodiscard]] Source source_of(schedules::Selection selection, const Problem& problem,
                               TimeModel model = {}, const schedules::Stop& stop = {});

/// Verifies, simulates, bounds and explains a table. The graph is built, and its longest path
/// compared with the simulated makespan, if that is cheap or asked for; a difference is a
/// ContractViolation. Throws Error{limit} if the ticks could overflow.
[[nodiscard]] Analysis analyze(Source source, const AnalysisOptions& options = {});

/// Throws Error{limit} if the tasks are more than timeline_of() takes: before they are analysed.
void expect_drawable(const Problem& problem);

/// The predicted timeline of an analysis, with its critical path marked and its bound; a task that
/// is several steps has an interval for each phase of every one. Of a table
/// that hangs, what runs until nothing moves, and of a wrong one, what can be played of it. Throws
/// Error{limit} above two million tasks.
[[nodiscard]] Timeline timeline_of(const Analysis& analysis);

}  // namespace stagger::workbench
