#pragma once

#include "cli/options.hpp"
#include "dag/bounds.hpp"
#include "schedules/search/optimize.hpp"
#include "workbench/time_model.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace stagger::cli {

/// A lower bound that a change of the problem would give.
struct Advice {
  std::string change;
  Ticks lower_bound = 0;
  const char* by = "";
};

/// One search for the best table of the options' problem: `stagger optimize`, and every entry of an
/// archive.
class Optimization {
 public:
  /// Reads the problem and the model, and bounds them. Throws Error.
  explicit Optimization(const Options& options);

  /// Searches within `--time-limit`; what it finds is verified and simulated.
  void run();

  [[nodiscard]] const search::Optimum& optimum() const { return optimum_; }
  [[nodiscard]] const char* status() const;  ///< "optimal", "feasible" or "infeasible"
  [[nodiscard]] const char* proof() const;   ///< "none", "bound" or "search"
  [[nodiscard]] int exit_code() const;

  /// `stagger.optimum/1`.
  [[nodiscard]] std::string json() const;
  [[nodiscard]] std::string text() const;

 private:
  void find_best_named();
  void import_solution();
  [[nodiscard]] dag::Bounds bounds_of(const Problem& problem, const Timing& timing) const;
  [[nodiscard]] std::optional<Ticks> makespan_of(const Table& table) const;
  void check(const search::Incumbent& found) const;
  [[nodiscard]] std::vector<Advice> advice() const;
  [[nodiscard]] const char* unit() const { return objective_.slots ? "slots" : model_.unit(); }
  [[nodiscard]] double seconds() const;

  struct Named {
    std::string schedule;
    Ticks makespan = 0;
  };

  Options options_;
  Problem problem_;
  std::chrono::steady_clock::time_point begin_;
  workbench::TimeModel model_;
  search::Objective objective_;
  dag::Bounds bounds_;
  std::optional<Named> best_named_;
  std::optional<Ticks> imported_;           ///< makespan of the imported answer
  std::optional<search::Incumbent> known_;  ///< the better of the two
  search::Optimum optimum_;
};

}  // namespace stagger::cli
