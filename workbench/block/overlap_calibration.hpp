#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stagger::block {

/// What a kernel does, counted for every limiter.
struct Amount {
  double flops = 0;
  double elements = 0;  ///< of attention's matrix
  double rows = 0;      ///< of that matrix: queries of heads
  double bytes = 0;     ///< of device memory
};

enum class LimitUnit { flops, elements, bytes };

/// One resource of a device, by what it takes of a kernel's work.
struct Limiter {
  std::string name;  ///< "MMA", "ALU", "issue", "HBM", …
  LimitUnit unit = LimitUnit::flops;
  double rate = 0;    ///< flops: TFLOP/s; elements: ps each; bytes: TB/s; > 0
  double row_ns = 0;  ///< what a row takes beside that: where CTAs begin and end

  [[nodiscard]] double ms(const Amount& amount) const;
};

/// What a kernel takes, and what keeps it from being faster.
struct Limited {
  double ms = 0;
  std::string by;
};
/// Returns the longest of the limiters' times. Requires one at least.
[[nodiscard]] Limited limited(const std::vector<Limiter>& limiters, const Amount& amount);

/// A kernel that stores random bits, one for an element.
struct RngRate {
  std::int64_t rounds = 0;                          ///< of Philox-4x32
  std::optional<std::int64_t> bits = std::nullopt;  ///< random bits an element; absent: any
  std::vector<Limiter> limiters;
};

/// What attention takes longer when it makes the bits itself: a part of what the RNG kernel takes,
/// or ps an element.
struct Exposed {
  std::optional<double> part = std::nullopt;
  std::optional<double> ps = std::nullopt;

  [[nodiscard]] double ms(double rng_ms, double elements) const;
};

/// What kernels lose beside each other, as factors of their time.
struct Slowdown {
  double gemm = 1;      ///< while the RNG runs
  double rng = 1;       ///< while a GEMM runs
  double room = 1;      ///< of a GEMM that leaves room for the RNG
  double dropping = 1;  ///< of attention that reads stored bits
};

/// What an SM has.
struct SmSize {
  std::int64_t count = 0;
  std::int64_t registers = 0;
  std::int64_t shared_bytes = 0;
};

/// A kernel's CTAs on an SM.
struct CtaSize {
  std::string name;
  std::int64_t threads = 0;
  std::int64_t registers = 0;  ///< a thread
  std::int64_t shared_bytes = 0;
  std::int64_t ctas_per_sm = 0;  ///< resident; 0: as many as fit
  double tflops = 0;             ///< 0: unknown
};

/// What a model of dropout beside GEMMs knows of one device and its kernels.
struct Calibration {
  std::string name;
  std::string device;
  std::vector<Limiter> gemm;
  std::vector<Limiter> attention;
  std::vector<Limiter> attention_backward;
  std::vector<RngRate> rng;
  Exposed forward;
  Exposed backward;
  Slowdown slowdown;
  SmSize sm;
  std::optional<CtaSize> rng_kernel = std::nullopt;
  std::vector<CtaSize> gemms = {};
  std::string source;
};

/// Reads schema `stagger.overlap-calibration/1`. Throws Error{invalid_input} with the path of what
/// is wrong.
[[nodiscard]] Calibration read_calibration(std::string_view text, const std::string& source);

/// Returns the entry for so many rounds and bits. Throws Error{usage}, which lists what there is.
[[nodiscard]] const RngRate& rng_of(const Calibration& calibration, std::int64_t rounds,
                                    std::int64_t bits);

}  // namespace stagger::block
