#pragma once

#include "dag/bounds.hpp"
#include "schedules/search/optimize.hpp"
#include "workbench/time_model.hpp"

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace stagger::workbench {

/// What a solver answered to "do so many rounds suffice?" (schedules/search/round_files.hpp).
struct SolverAnswer {
  std::string text;
  std::string source;       ///< names the text in messages
  std::int64_t rounds = 0;  ///< that were asked about; 0: the lower bound
};

/// How far a search has come.
struct SearchState {
  std::string phase;  ///< what it does
  Ticks lower_bound = 0;
  std::optional<Ticks> best;  ///< the shortest makespan that was found
};

/// What to search for, and how long.
struct OptimizationRequest {
  Problem problem;
  bool any_span = false;  ///< the best span is looked for too, not the problem's alone
  TimeModel model = {};
  /// The model of the problem with another span, whose passes may take longer; absent: `model`.
  std::function<TimeModel(const Problem&)> model_of = {};
  bool slot_model = false;  ///< that instead, on the SMs that are there
  double time_limit = std::numeric_limits<double>::infinity();  ///< seconds
  std::int64_t threads = 0;                                     ///< 0: as many as the machine has
  std::uint64_t seed = 1;
  std::int64_t effort = 100;                          ///< of the heuristics
  std::optional<SolverAnswer> answer = std::nullopt;  ///< a table to beat
  /// Slot model: DRAT proof of the last number of rounds refuted, if not empty.
  std::string proof_file = {};
  bool advises = false;                                   ///< `advice` is asked for
  std::function<bool()> stop = {};                        ///< asked often, from any thread
  std::function<void(const SearchState&)> progress = {};  ///< told of phases and improvements
};

/// A lower bound that a change of the problem would give.
struct Advice {
  std::string change;
  Ticks lower_bound = 0;
  const char* by = "";
};

/// The best table that was found for a problem, and what is known of it.
struct Optimization {
  struct Named {
    std::string schedule;
    Ticks makespan = 0;
    std::int32_t span = 1;
    Ticks passes = 0;  ///< that span's

    [[nodiscard]] Ticks whole() const { return makespan + passes; }
  };

  Problem problem;
  TimeModel model;
  bool slot_model = false;
  dag::Bounds bounds;
  std::optional<Named> best_named;  ///< of the schedules that do not search
  std::optional<Ticks> imported;    ///< makespan of the solver's answer
  std::string found_by;             ///< what found the best table, in words; empty: none was found
  search::Optimum optimum;
  std::vector<Optimization> others;  ///< what was found of other spans, in no order
  std::vector<Advice> advice;        ///< that there was time for (workbench/advice.hpp)
  double seconds = 0;                ///< that all of this took

  [[nodiscard]] const char* status() const;  ///< "optimal", "feasible" or "infeasible"
  [[nodiscard]] const char* proof() const;   ///< "none", "bound" or "search"
  [[nodiscard]] const char* unit() const { return slot_model ? "rounds" : model.unit(); }
};

/// Bounds the makespan, for half of the time at most, and searches for a table that reaches it.
/// What is found is verified and played by code that the search does not share. Throws Error.
///
/// Where several spans are asked for, the table has the one of the shortest whole pass, since parts
/// of dK and dV are added in a pass of their own; and the lower bound is that of all. A span whose
/// bound is no better than what is known is not searched. Where heads share K and V a search knows
/// parts, and lifts what it finds.
[[nodiscard]] Optimization optimize(const OptimizationRequest& request);

/// Lower bounds of the makespan of any table, lower ones if `stop` cuts them short; of the slot
/// model they are rounds.
[[nodiscard]] dag::Bounds bounds_of(const Problem& problem, const Timing& timing, bool slot_model,
                                    const dag::Stop& stop);

}  // namespace stagger::workbench
