#pragma once

#include "workbench/block/overlap_calibration.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace stagger::block {

/// Attention with dropout, and the four GEMMs (QKV, projection, two of the FFN) before it, of one
/// block whose hidden size is heads * head_dim.
struct DropoutShape {
  std::int64_t batch = 1;
  std::int64_t heads = 0;
  std::int64_t seq = 0;  ///< tokens
  std::int64_t head_dim = 128;
};

/// Checks that all that is counted of the shape fits. Throws Error{limit}.
void check(const DropoutShape& shape);

/// Returns the bits that are decided, one for each pair: batch * heads * seq^2.
[[nodiscard]] std::int64_t elements_of(const DropoutShape& shape);
/// Returns the bytes of one layer's bits: a 32-bit word for 32 keys of a query.
[[nodiscard]] std::int64_t mask_bytes_of(const DropoutShape& shape);

/// What the four kernels take alone, in any one unit of time.
struct Alone {
  double gemm = 0;
  double attention = 0;  ///< without dropout
  double rng = 0;
  double exposed = 0;  ///< what attention takes longer when it makes the bits itself
};

/// Both ways to have dropout: bits made in attention, or beside the GEMMs before it.
struct Ways {
  double baseline = 0;            ///< GEMMs, then attention that makes its bits
  double gemm_slowed = 0;         ///< the GEMMs' end, G'
  double rng_slowed = 0;          ///< the RNG's end, R'
  double rng_exposed = 0;         ///< of it, behind the GEMMs
  double attention_dropping = 0;  ///< attention that reads bits
  double overlap = 0;

  [[nodiscard]] double speedup() const { return baseline / overlap; }
};

/// Returns both. While both run, the RNG makes 1 / slowdown.rng of its progress; it makes the rest
/// behind the GEMMs at full speed. The GEMMs lose (slowdown.gemm − 1) of the time for which the RNG
/// runs beside them, of their own time at most.
///
///     G' = G + (g − 1) min(G, r R), and max(0, R − g G / r) behind it
[[nodiscard]] Ways ways_of(const Alone& alone, const Slowdown& slowdown);

/// Attention and RNG as parts of the GEMMs' time, by x = seq / heads: A = alpha x G and so on.
struct Ratios {
  double alpha = 0;  ///< attention
  double beta = 0;   ///< RNG
  double phi = 0;    ///< what of it is exposed in attention

  /// What is behind the forward pass.
  struct Backward {
    double gemm = 2;   ///< whatever x is
    double alpha = 0;  ///< attention
    double phi = 0;    ///< what of the RNG is exposed in it
  };
  std::optional<Backward> backward = std::nullopt;  ///< absent: the forward pass alone counts
};

/// How the RNG is made.
struct RngChoice {
  std::int64_t rounds = 7;
  std::int64_t bits = 8;  ///< random bits that decide on an element
};

/// Returns the ratios of compute alone: device memory limits none of the kernels at sizes that
/// matter, and what rows take is no function of x. With `both` the backward pass counts too. Throws
/// Error{usage} as rng_of does, or if a kernel has no other limiter.
[[nodiscard]] Ratios ratios_of(const Calibration& calibration, const RngChoice& rng,
                               std::int64_t head_dim, bool both = false);

/// Returns the speedup at x = seq / heads, > 0, of the passes that count.
[[nodiscard]] double speedup_at(const Ratios& ratios, const Slowdown& slowdown, double x);

/// From one x to another.
struct XRange {
  double from = 0;
  std::optional<double> to = std::nullopt;  ///< absent: it has no end
};

/// Where the picture of the speedup over x changes.
struct Borders {
  double region2 = 0;  ///< from here the slowed RNG takes more than half of the GEMMs' time
  double region3 = 0;  ///< from here it takes longer than the GEMMs
  double exposed = 0;  ///< from here some of it is behind the slowed GEMMs
  std::vector<XRange> losing = {};  ///< where overlapping takes longer, upwards; empty: nowhere
  std::optional<double> break_even = std::nullopt;  ///< behind it only that; absent: it never does
  /// The whole x of the largest speedup; absent: the speedup rises for ever.
  std::optional<std::int64_t> peak_x = std::nullopt;
  double peak_speedup = 0;  ///< the largest at a whole x, or what it rises to

  [[nodiscard]] int region_of(double x) const { return x < region2 ? 1 : x < region3 ? 2 : 3; }
};
[[nodiscard]] Borders borders_of(const Ratios& ratios, const Slowdown& slowdown);

/// The backward pass: GEMMs of twice the FLOPs, attention of 2.5 times, and the same bits again,
/// made once more in attention or read as they were stored.
struct BackwardWays {
  double gemm_ms = 0;
  double attention_ms = 0;
  double fused_ms = 0;     ///< attention that makes the bits again
  double dropping_ms = 0;  ///< attention that reads them
};

/// What is predicted of dropout beside GEMMs.
struct Overlap {
  DropoutShape shape;
  RngChoice rng;
  std::int64_t elements = 0;
  std::int64_t mask_bytes = 0;
  Limited gemm;
  Limited attention;
  Limited rng_alone;
  double fused_ms = 0;  ///< attention that makes its bits
  Ways ways = {};       ///< of the forward pass, ms
  std::optional<BackwardWays> backward = std::nullopt;
  double baseline_ms = 0;  ///< of the passes asked for
  double overlap_ms = 0;
  double x = 0;
  int region = 1;  ///< by the times of these kernels, as Borders say by x

  [[nodiscard]] double speedup() const { return baseline_ms / overlap_ms; }
};

/// Returns the forward pass, and with `both` the backward pass behind it. Dropping takes as much
/// longer per element in the backward pass as in the forward one. Throws Error.
[[nodiscard]] Overlap overlap_of(const DropoutShape& shape, const RngChoice& rng,
                                 const Calibration& calibration, bool both);

/// What a probability becomes when b bits decide: keep if their number is below the threshold.
struct Representable {
  std::int64_t threshold = 0;  ///< keeps threshold of 2^bits
  double kept = 0;             ///< the fraction that is kept
  double dropped = 0;
  double bias = 0;  ///< kept / (1 − p) − 1: of sums scaled by 1 / (1 − p) and not by 1 / kept
};
/// Requires 0 <= probability < 1, bits of 1 to 32. A threshold is 1 at least.
[[nodiscard]] Representable representable(double probability, std::int64_t bits);

/// What a GEMM leaves of an SM, and what of another kernel fits there. Throws Error{usage} if it
/// needs more than there is.
struct Room {
  std::int64_t registers = 0;
  std::int64_t shared_bytes = 0;
  std::int64_t ctas = 0;
};
[[nodiscard]] Room room_of(const SmSize& sm, const CtaSize& gemm, const CtaSize& rng);

/// Returns the CTAs of a kernel that are resident on an SM of its own; 0: not even one fits.
[[nodiscard]] std::int64_t resident_ctas(const SmSize& sm, const CtaSize& kernel);

/// Returns when a kernel of `grid` CTAs ends that was launched while a GEMM fills every SM: its
/// CTAs crowd on the first SMs that free up, `ctas_per_sm` on each, so that of its SMs' rate it has
/// grid / ctas_per_sm of `sms`. `full_time` is what it takes with all of them.
[[nodiscard]] double crowded(double gemm_time, double full_time, std::int64_t sms,
                             std::int64_t grid, std::int64_t ctas_per_sm);

}  // namespace stagger::block
