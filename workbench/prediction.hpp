#pragma once

#include "core/machine.hpp"
#include "workbench/accuracy.hpp"
#include "workbench/run_file.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace stagger::workbench {

/// What a run is predicted to take, in ns.
struct Predicted {
  Ticks last_reduction = 0;                     ///< from the first task's start to its end
  std::optional<Ticks> elapsed = std::nullopt;  ///< of the whole run; absent: nothing says it
  std::uint64_t table = 0;        ///< equal for runs that no timing model tells apart; 0: unknown
  std::int64_t dq_in_flight = 0;  ///< bytes of dQ tiles at most
  std::int64_t l2 = 0;            ///< bytes that stay in L2; 0: the model has no memory
};

/// Gives runs of files' tables the table of their name and problem, if it is among these.
/// O(runs * log tables).
void give_tables(MeasuredRuns& measured, const std::vector<Table>& tables);

/// A run's table, built again or given, on a machine. Throws Error{usage} if it was a file's that
/// was not given, if the profile has no times of its kernel or if the table would not run there.
[[nodiscard]] Predicted predict(const Machine& machine, const MeasuredRun& run);

/// What the run itself says; absent if it says nothing in ns.
[[nodiscard]] std::optional<Predicted> said_prediction(const MeasuredRun& run);

/// One duration of several runs, as measured and as predicted.
struct Judged {
  std::vector<std::size_t> runs;  ///< by prediction: which one, ascending
  std::vector<Prediction> predictions;
  Accuracy accuracy;  ///< if there is a prediction

  [[nodiscard]] bool empty() const { return predictions.empty(); }
  /// The prediction for a run, nullptr if there is none.
  [[nodiscard]] const Prediction* find(std::size_t run) const;
};

/// Measured runs beside what is predicted of them.
struct PredictedRuns {
  MeasuredRuns measured;
  std::optional<Machine> machine;  ///< absent: what the runs say themselves
  Judged spans;                    ///< of every run, first task to last
  Judged wholes;                   ///< of those of which the whole run is known
};

/// Predicts every run and compares. On a machine, runs of searched tables that a search does not
/// find again are skipped: their orders say so. Throws Error{usage} if no run is left, or one of
/// which nothing is predicted.
[[nodiscard]] PredictedRuns predict_runs(MeasuredRuns measured, std::optional<Machine> machine);

}  // namespace stagger::workbench
