#pragma once

#include "workbench/designs/comparison.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace stagger::designs {

/// Which design to take for a problem is asked for.
struct AdviceRequest {
  Request request;                       ///< its schedule and parameters do not count
  std::vector<std::string> steady = {};  ///< words that bits must not move with
  std::function<void(double fraction)> progress = {};
  std::function<bool()> stop = {};
};

/// A design that was not taken, or the one that was, and why it takes as long as it does.
struct Reason {
  std::string name;
  Ticks takes = 0;
  double ratio = 1;  ///< to the one that is taken
  std::string why;
};

/// Where another design is the best: what it turns at, one step before, and what changes.
struct Turn {
  const char* what = "";  ///< "heads", "heads_kv", "reduce", "sinks" (keys), "head_dim"
  std::int64_t below = 0;
  std::int64_t from = 0;  ///< the next value, at which `after` is the best
  std::string before;
  std::string after;
};

struct Advice {
  Comparison comparison;
  std::vector<std::string> steady = {};
  std::vector<Reason> reasons =
      {};                        ///< the best of each design, fastest first; empty: none applies
  std::vector<Turn> turns = {};  ///< by what turns, upwards
};

/// Compares the designs and asks the model again with other heads, KV heads, reductions, keys at
/// the beginning that every query sees and, where device memory is known, head dimensions: phases
/// then grow with head_dim, dS's bytes do not.
/// Schedules that search are left out. Throws Error{limit}.
[[nodiscard]] Advice advise(const AdviceRequest& request);

}  // namespace stagger::designs
