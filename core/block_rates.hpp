#pragma once

#include "core/json_value.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace stagger {

/// A rate that was measured at one size.
struct RateAt {
  double size = 0;  ///< > 0: bytes, tokens
  double rate = 0;  ///< > 0

  friend bool operator==(const RateAt&, const RateAt&) = default;
};

/// Returns the rate at a size, > 0: between two measured sizes linear in the logarithm of the size,
/// outside of them the nearest. Requires points by ascending size, at least one.
[[nodiscard]] double rate_at(std::span<const RateAt> points, double size);

/// How a block's elementwise operations are run: a kernel for each, or fused.
enum class Ops { eager, compiled };
inline constexpr const char* kOpsNames[] = {"eager", "compiled"};
[[nodiscard]] constexpr const char* name(Ops ops) {
  return kOpsNames[static_cast<int>(ops)];
}

/// How long a device has been at work when its rates are taken. The clock that it has for a
/// fraction of a second is more than what it keeps over whole ones, which is what training gets.
enum class Load { burst, sustained };
inline constexpr const char* kLoadNames[] = {"burst", "sustained"};
[[nodiscard]] constexpr const char* name(Load load) {
  return kLoadNames[static_cast<int>(load)];
}

/// How many times the least time of their bytes a block's elementwise kernels take. A word that is
/// absent stands for any.
struct Kappa {
  std::optional<Ops> ops = std::nullopt;
  std::optional<std::string> layers = std::nullopt;  ///< "swiglu", "gelu", "experts"
  std::int64_t permille = 1000;                      ///< > 0

  friend bool operator==(const Kappa&, const Kappa&) = default;
};

/// What kernels of single eager operations reach, in elements of their results a nanosecond, where
/// they do not run at the rate of copies. Absent: not measured.
struct OperationRates {
  std::optional<double> broadcast = std::nullopt;  ///< an operand is repeated along a dimension
  std::optional<double> strided = std::nullopt;    ///< an operand is a part of wider rows
  std::optional<double> fused = std::nullopt;      ///< a norm or an activation is one kernel

  friend bool operator==(const OperationRates&, const OperationRates&) = default;
};

inline constexpr const char* kLayersNames[] = {"swiglu", "gelu", "experts"};

/// What one implementation of attention reaches at one shape, in TFLOP/s of the live pairs' 4 (10)
/// FLOPs an element of Q.
struct AttentionRate {
  std::string name;
  std::int64_t head_dim = 0;  ///< elements
  bool causal = false;
  std::int64_t seq = 0;  ///< tokens
  double forward_tflops = 0;
  double backward_tflops = 0;
  std::optional<std::int64_t> heads = std::nullopt;  ///< of all sequences; absent: of any

  [[nodiscard]] bool same_shape(const AttentionRate& other) const {
    return name == other.name && head_dim == other.head_dim && causal == other.causal &&
           seq == other.seq && heads == other.heads;
  }

  friend bool operator==(const AttentionRate&, const AttentionRate&) = default;
};

/// How a device at its power limit lowers its clock: the more, the more its tensor cores do.
struct Throttle {
  std::int64_t above_tflops = 0;  ///< of a whole block: up to there the clock is full
  std::int64_t ppm = 0;           ///< that it falls with every TFLOP/s beyond; 0: it stays full
  /// The full clock, of that of a kernel alone that rested before: a block never rests.
  std::int64_t rested_permille = 1000;

  static constexpr double kLeastClock = 0.1;
  static constexpr std::int64_t kLeastRestedPermille = 100;

  /// Returns the clock behind which a block reaches so many TFLOP/s: a part of the full one, no
  /// less than kLeastClock.
  [[nodiscard]] double clock(double tflops) const {
    const double beyond = std::max(0.0, tflops - static_cast<double>(above_tflops));
    return std::max(kLeastClock, 1 - 1e-6 * static_cast<double>(ppm) * beyond);
  }

  /// Returns what a kernel of tensor cores takes behind a clock that takes so long rested, ms.
  [[nodiscard]] double within_ms(double rested_ms, double clock) const {
    return rested_ms / (clock * 1e-3 * static_cast<double>(rested_permille));
  }

  friend bool operator==(const Throttle&, const Throttle&) = default;
};

/// What the kernels of a transformer block reach on a device, those of tensor cores at its full
/// clock.
struct BlockRates {
  std::optional<Load> load = std::nullopt;  ///< absent: not said
  double gemm_tflops = 0;
  std::int64_t gemm_t0_ns = 0;             ///< what a GEMM takes beyond its FLOPs
  std::int64_t gemm_exposed_permille = 0;  ///< of its bytes' time, that a GEMM takes beside them
  std::vector<RateAt> copy;                ///< TB/s, read and written, by bytes; at least one
  std::vector<Kappa> kappas;               ///< the first that fits counts
  OperationRates operations = {};
  Throttle throttle = {};
  std::vector<AttentionRate> attention = {};
  std::string source = {};  ///< where all of it is from
  std::string date = {};

  /// Returns ms that device memory takes for so many bytes, > 0, read and written.
  [[nodiscard]] double copied_ms(std::int64_t bytes) const;

  friend bool operator==(const BlockRates&, const BlockRates&) = default;
};

/// Reads and writes the `block` of a machine profile: rates, or an array of them, each of another
/// load. Reading throws Error{invalid_input}; writing requires at least one.
[[nodiscard]] std::vector<BlockRates> read_block_rates(const JsonValue& value);
[[nodiscard]] std::string write_block_rates(std::span<const BlockRates> blocks);

}  // namespace stagger
