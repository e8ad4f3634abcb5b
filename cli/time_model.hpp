#pragma once

#include "core/machine.hpp"
#include "core/problem.hpp"
#include "core/timing.hpp"

#include <string>

namespace stagger::cli {

struct Options;

/// What a tick is.
enum class Clock { ticks, ns };

/// A timing model and where it is from.
struct TimeModel {
  Timing timing = {};
  Clock clock = Clock::ticks;
  std::string machine = {};  ///< ns: the profile's name
  std::string device = {};   ///< ns: the profile's
  KernelKey kernel = {};     ///< ns: the profile's entry
  Ticks start = 0;           ///< ns: what a whole run takes beyond its makespan and passes
  Ticks passes = 0;          ///< ns: of the passes before and after the kernel; 0: it has none

  /// ns, of a whole run whose kernel plays a table of this makespan.
  [[nodiscard]] Ticks elapsed(Ticks makespan) const { return start + passes + makespan; }

  [[nodiscard]] const char* unit() const { return clock == Clock::ns ? "ns" : "ticks"; }
};

/// What the options ask of a machine profile, with these tiles.
[[nodiscard]] KernelKey kernel_key(const Options& options, const TileShape& tile);

/// The timing model that the options describe, unchecked against a problem. With `--machine` that
/// of the profile's entry for the problem's tiles, in ns and on no more SMs than the device has;
/// options that were given win. Throws Error.
[[nodiscard]] TimeModel time_model_of(const Options& options, const Problem& problem);

/// What a replay's phases spin for, in ticks: the options alone, whatever the profile says.
[[nodiscard]] Timing spun_timing(const Options& options);

/// A timing model in ns whose ticks last so long. Throws Error{limit} above 2^60 ns.
[[nodiscard]] Timing in_ns(const Timing& timing, std::int64_t tick_ns);

/// The profile's model of a kernel on a problem; one that only spins spins for `spun`, in ns.
/// Throws Error{limit} if its passes would take more than 2^61 ns, and what gpu::attention_shape()
/// throws if it has passes.
[[nodiscard]] TimeModel time_model_of(const Machine& machine, const KernelTimes& times,
                                      const Problem& problem, const Timing& spun);

/// Makes no more SMs resident than the device has: one CTA an SM.
void fit(Timing& timing, const Problem& problem, std::int32_t sms);

/// `108 ticks`; of nanoseconds `812 ns`, `41.27 us`, `3.412 ms`.
[[nodiscard]] std::string duration(Ticks ticks, Clock clock);
/// The same for a column whose unit is known: `108`, `41.27 us`.
[[nodiscard]] std::string short_duration(Ticks ticks, Clock clock);

}  // namespace stagger::cli
