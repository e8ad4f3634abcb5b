#pragma once

#include "gpu/overlap/work.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace stagger::gpu::overlap {

/// What a GEMM leaves of an SM.
enum class Room {
  none,       ///< nothing: all registers are its own
  streams,    ///< registers for two CTAs of the kernel that makes bits, on another stream
  warps,      ///< three warps of its own CTAs beside the one that loads, which make bits
  warpgroup,  ///< a fourth warpgroup of its own CTAs, which makes bits
};

/// Threads, registers a thread at launch, and shared memory of a GEMM's CTA.
struct GemmCta {
  std::int32_t threads = 0;
  std::int32_t registers = 0;
  std::int32_t shared_bytes = 0;
};

/// GEMMs one behind the other, and the bits of one layer's dropout.
struct OverlapProblem {
  std::vector<GemmShape> gemms;
  std::int64_t batch = 1;
  std::int64_t heads = 0;
  std::int64_t seq = 0;
  DropoutRule rule = {};   ///< of 8 bits and 3, 5, 7 or 10 rounds, or of 32 bits
  bool attention = false;  ///< of head_dim 128, behind them; needs multiples of 128 tokens
};

/// Where bits are made.
enum class BitsPlace {
  nowhere,
  before,  ///< by a kernel in front of the GEMMs
  inside,  ///< by warps of the GEMMs' CTAs, and the rest by all of the last one's
  beside,  ///< by a kernel on a second stream, launched before the GEMMs
  behind,  ///< likewise, launched after the first of them
};

/// How attention's forward pass has the bits of its dropout.
enum class Dropping {
  no,     ///< it drops nothing
  makes,  ///< it makes them where it needs them
  reads,
};

/// One way to run the problem.
struct Way {
  bool gemms = true;
  Room room = Room::none;
  BitsPlace bits = BitsPlace::nowhere;
  std::int32_t bits_ctas = 0;  ///< of the kernel that makes bits; 0: one for four chunks
  /// Attention behind GEMMs and bits; absent: none. It reads what this way, or one before, made.
  std::optional<Dropping> attention = std::nullopt;
};

/// What a way took.
struct WayTimes {
  double ms = 0;            ///< from the first kernel's begin to the last one's end
  double gemms_ms = 0;      ///< until the last product is in memory; 0: there are no GEMMs
  double bits_ms = 0;       ///< until the last bit is; 0: nobody makes them
  double attention_ms = 0;  ///< of attention itself
  double clock_ghz = 0;     ///< of an SM, the mean while it had GEMMs
};

/// What a way left behind.
struct WayCheck {
  std::int64_t words = 0;         ///< of bits
  std::int64_t words_wrong = 0;   ///< of all, by another kernel that calls keep_word()
  std::int64_t samples = 0;       ///< words and elements that the host computed
  std::int64_t words_off = 0;     ///< of the host's samples
  std::int64_t elements_off = 0;  ///< of the host's samples: further off than roundings explain
  double worst_error = 0;         ///< of those elements, in bounds
  std::uint64_t gemm_digest = 0;  ///< of all elements of all C: what ways must have in common
  std::uint64_t out_digest = 0;   ///< of attention's output
  bool given_up = false;          ///< a wait in a kernel had no end

  [[nodiscard]] bool right() const {
    return words_wrong == 0 && words_off == 0 && elements_off == 0 && !given_up;
  }
};

/// Says why the current device does not run these; empty if it does.
[[nodiscard]] std::string overlap_refusal();

[[nodiscard]] GemmCta gemm_cta(Room room);
/// The kernel that makes bits by such a rule.
[[nodiscard]] GemmCta bits_cta(const DropoutRule& rule);

/// How many CTAs of the kernel that makes bits an SM of its own holds.
struct Residents {
  std::int64_t sms = 0;
  std::int64_t ctas_per_sm = 0;
};
[[nodiscard]] Residents bits_residents(const DropoutRule& rule);

/// A problem in the memory of the current device.
class OverlapRuns {
 public:
  /// Requires an empty overlap_refusal(). Throws Error{unsupported} for a shape that the GEMM does
  /// not run or a rule without a kernel, Error{limit} for 2^31 words or more, Error{device}.
  explicit OverlapRuns(const OverlapProblem& problem);
  OverlapRuns(OverlapRuns&&) noexcept;
  OverlapRuns& operator=(OverlapRuns&&) noexcept;
  ~OverlapRuns();

  /// Runs a way once, and waits for its end. Throws Error{device}, also if a wait was given up.
  WayTimes run(const Way& way);

  /// Forgets results, runs a way and checks all that it leaves: every word of bits by a kernel that
  /// makes each alone, and by the host on samples; elements of every C by the host in double
  /// precision, on samples.
  WayCheck check(const Way& way);

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace stagger::gpu::overlap
