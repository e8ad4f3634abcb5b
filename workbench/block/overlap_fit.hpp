#pragma once

#include "core/json.hpp"
#include "workbench/block/overlap.hpp"

#include <span>
#include <string>
#include <vector>

namespace stagger::block {

/// The four GEMMs of a block, the bits of its dropout and attention's forward pass, as a device ran
/// them; ms.
struct MeasuredOverlap {
  DropoutShape shape = {};
  RngChoice rng = {};
  double gemms = 0;            ///< alone
  double bits = 0;             ///< alone
  double attention = 0;        ///< without dropout
  double attention_makes = 0;  ///< with bits that it makes
  double attention_reads = 0;  ///< with bits that it reads
  double with_room = 0;        ///< GEMMs that leave room, alone
  double beside_gemms = 0;     ///< those until their end, bits being made beside them
  double beside_bits = 0;      ///< bits until their end, from the first GEMM's begin
  double baseline = 0;         ///< GEMMs, then attention that makes its bits
  double serial = 0;           ///< bits, GEMMs, attention that reads them
  double overlap = 0;          ///< GEMMs beside bits, then attention that reads them
};

/// What a kernel that makes bits alone takes for an element.
struct MeasuredRng {
  RngChoice rng = {};
  double ps = 0;
};

/// Returns the constants that one shape's times say: how much longer GEMMs take that leave room and
/// attention that reads bits, what GEMMs lose while bits are made, and what bits lose beside GEMMs.
/// None is below 1.
[[nodiscard]] Slowdown slowdown_of(const MeasuredOverlap& measured);

/// Returns `base` with the rates of GEMMs, attention and RNG, what attention exposes of the bits
/// that it makes, and the slow-downs as measured, each the median, but attention's rate and what
/// its rows take, which are the least squares of relative errors; what is of the backward pass
/// stays. Requires measured shapes and rates.
[[nodiscard]] Calibration fitted(Calibration base, std::span<const MeasuredOverlap> shapes,
                                 std::span<const MeasuredRng> rng);

/// What a calibration says of a measured shape: predicted / measured − 1.
struct FitError {
  double baseline = 0;
  double overlap = 0;
};
[[nodiscard]] FitError error_of(const Calibration& calibration, const MeasuredOverlap& measured);

/// Schema `stagger.overlap-calibration/1`, which read_calibration() reads.
[[nodiscard]] Json calibration_json(const Calibration& calibration);

}  // namespace stagger::block
