#pragma once

#include "core/table.hpp"
#include "core/timing.hpp"
#include "gpu/check/backward.hpp"
#include "tests/support/random.hpp"

namespace stagger::test {

/// A device that there is not: it plays a table task by task with durations of its own for each,
/// by code that shares nothing with the simulator.
struct ToyDevice {
  Timing timing;                  ///< ns; compute phases and reductions are whole in each step
  double noise = 0;               ///< each phase takes up to this part longer or shorter
  Ticks timer = 1;                ///< ns: stamps are rounded down to multiples
  Ticks taking = 0;               ///< from being ready to a turn that was not waited for
  Ticks start = 0;                ///< of the whole run
  Ticks passes = 0;               ///< what passes take of any problem; 0: there are none
  Ticks passes_per_mi = 0;        ///< and per 2^20 elements of Q
  std::int64_t head_dim = 64;     ///< elements
  int slow_one_in = 0;            ///< one compute phase in so many takes twice as long
  bool stamps_hand_over = false;  ///< compute's end is stamped when the dQ slot is free
  bool stamps_launch = true;      ///< a chain's first compute phase is stamped before its launch
};

/// Runs a static table, or one whose ranks follow the order of its lanes (any FlashAttention
/// schedule), which must not hang.
[[nodiscard]] gpu::Backward run_on_toy(const ToyDevice& device, const Table& table, gpu::Mode mode,
                                       Random& random);

}  // namespace stagger::test
