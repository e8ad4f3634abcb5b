#pragma once

#include "core/timing.hpp"

namespace stagger::designs {

/// A timing model in units of a part of a tick.
struct Units {
  Timing timing;
  Ticks per_tick = 1;
};

/// The timing with each duration `factor` times as long: in units of 1 / factor ticks. A memory's
/// tiles and cache have as many times the bytes, so that its rate stays. Throws Error{limit} above
/// 2^62.
[[nodiscard]] Timing scaled(const Timing& timing, Ticks factor);

/// The timing of free lanes, in the largest unit in which a GEMM of a tile is whole: its compute
/// phases are `numerator` / (5 * `denominator`) of a task's. Requires both above 0.
[[nodiscard]] Units gemm_units(const Timing& timing, Ticks numerator = 1, Ticks denominator = 1);

}  // namespace stagger::designs
