#pragma once

#include "gpu/check/checked_runs.hpp"
#include "gpu/cpu/executor.hpp"
#include "schedules/schedule.hpp"

#include <algorithm>
#include <string>

namespace stagger::gpu {

/// A table that can be run, its numbers, and what its gradients should be.
struct Case {
  Table table;
  Attention attention;
  ReferenceGradients exact;
};

inline Case causal_case() {
  const Problem problem = make_problem(make_mask("causal"), {24, 24}, {4, 4}, 2, 0);
  const AttentionShape shape = attention_shape(problem, 8);
  const Attention attention = make_attention(problem, shape, random_inputs(shape, 1));
  return {schedules::build(schedules::select("descending"), problem), attention,
          reference_gradients(attention)};
}

inline bool has_fault(const CheckedRuns& runs, const std::string& kind) {
  return std::any_of(runs.faults.begin(), runs.faults.end(),
                     [&](const RunFault& fault) { return fault.kind == kind; });
}

/// Runs on a right device, after each of which `spoil` has its way. Runs count from 0.
inline Device spoiled_by(void (*spoil)(Backward&, std::int64_t run)) {
  static void (*spoils)(Backward&, std::int64_t) = nullptr;
  static std::int64_t runs = 0;
  spoils = spoil;
  runs = 0;
  return [](const Table& table, const Attention& attention, const BackwardOptions& options) {
    Backward run = backward_on_cpu(table, attention, options);
    spoils(run, runs++);
    return run;
  };
}

}  // namespace stagger::gpu
