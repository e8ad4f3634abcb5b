#pragma once

#include "core/timeline.hpp"
#include "workbench/analysis.hpp"
#include "workbench/designs/design.hpp"

#include <optional>
#include <string>
#include <vector>

namespace stagger::designs {

/// What is known of one design on one problem.
struct Analysis {
  const Design* design = nullptr;
  Plan plan = {};
  workbench::TimeModel model = {};
  /// How long the kernels take, one after the other, in ticks or ns, rounded up; no passes.
  Ticks makespan = 0;
  std::vector<Ticks> stages = {};  ///< each kernel's, likewise
  std::int64_t lanes = 0;          ///< of all kernels
  double busy = 1;                 ///< the part of SM time in which something runs
  /// In ns: with what passes and launches take, and what a kernel takes to start. Absent in ticks,
  /// and where no rate of device memory is known.
  std::optional<Ticks> elapsed = std::nullopt;
  /// A table's, in the plan's units; absent of lanes that wait for nobody.
  std::optional<workbench::Analysis> table = std::nullopt;

  [[nodiscard]] bool ok() const { return !table || table->ok(); }
  /// What designs are ranked by.
  [[nodiscard]] Ticks takes() const { return elapsed.value_or(makespan); }
};

/// Plays a design. Of a table everything is known that workbench::analyze() knows; lanes that wait
/// for nobody are dispatched in order. With a memory a kernel takes no less than its bytes do.
/// Throws Error{unsupported} if it does not apply, Error{limit}.
[[nodiscard]] Analysis analyze(const Selection& selection, const Request& request,
                               const workbench::AnalysisOptions& options = {});

/// What the kernels do, one after the other, with the problem's tasks. Times are in ns, rounded up,
/// or in parts of a tick where the plan has those: the clock is `ticks/5`, say. Throws Error{limit}
/// above two million tasks.
[[nodiscard]] Timeline timeline_of(const Analysis& analysis, const Problem& problem);

/// What the same work takes if a CTA has each chain and nobody keeps an order: the kernel that is
/// not deterministic, its additions as long as a reduction.
[[nodiscard]] Ticks without_order(const Problem& problem, const workbench::TimeModel& model);

}  // namespace stagger::designs
