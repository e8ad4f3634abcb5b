#pragma once

#include "core/machine.hpp"
#include "core/problem.hpp"
#include "core/timing.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace stagger::workbench {

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

/// Parts of a timing model that somebody gave; the rest is a default's or a machine profile's.
struct GivenTiming {
  std::optional<Model> model = std::nullopt;
  std::optional<Ticks> compute = std::nullopt;  ///< holds for partial tiles too, but for theirs
  std::optional<Ticks> compute_partial = std::nullopt;
  std::optional<Ticks> reduce = std::nullopt;
  std::optional<Ticks> latency = std::nullopt;
  std::optional<Ticks> launch = std::nullopt;
  std::optional<Ticks> epilogue = std::nullopt;
  std::optional<Ticks> reduce_kv = std::nullopt;  ///< absent: a profile's, or two by tile shapes
  bool reduce_kv_async = false;
  std::optional<Ticks> next_lane = std::nullopt;
  std::optional<Release> release = std::nullopt;
  std::optional<std::int64_t> steps = std::nullopt;      ///< 1 to kMaxSteps
  bool cut_partial = false;                              ///< else the profile's
  std::optional<std::int64_t> l2 = std::nullopt;         ///< bytes, > 0
  std::optional<std::int64_t> bandwidth = std::nullopt;  ///< bytes a tick, > 0
  std::optional<std::int64_t> add_permille = std::nullopt;
  std::optional<Ticks> memory_latency = std::nullopt;
  std::optional<Ticks> congestion = std::nullopt;
  std::optional<Ticks> spread = std::nullopt;
  std::optional<Ticks> dip = std::nullopt;
  std::optional<Ticks> dip_loss = std::nullopt;
  std::optional<std::int64_t> draw = std::nullopt;  ///< below kMemoryDraws

  /// `timing` with what was given in the place of its own.
  [[nodiscard]] Timing over(Timing timing) const;
};

/// What determines a time model.
struct TimeRequest {
  GivenTiming given = {};
  /// Whose entry of the machine counts, and whose tiles a memory holds; one without a dtype only
  /// spins. The tiles are the problem's.
  KernelKey kernel = {.kernel = "portable", .dtype = "fp32", .head_dim = 64};
  std::int32_t residency = 0;  ///< SMs that are really there; 0: as many as the problem says
  std::optional<Machine> machine = std::nullopt;  ///< absent: a tick is a unit of its own
  std::int64_t tick_ns = 1000;                    ///< a kernel that spins: what a given tick lasts
};

/// The timing model asked for, unchecked against a problem. With a machine it is in ns, that of the
/// profile's entry for the problem's tiles, on no more SMs than the device has; what was given
/// wins. A memory is modelled if the profile has one, or if both its size and its rate are given.
/// Throws Error{usage} if the profile has no such entry, or one of the two is missing, Error{limit}
/// if a phase would spin or its passes would take too long.
[[nodiscard]] TimeModel time_model_of(const TimeRequest& request, const Problem& problem);

/// The profile's model of a kernel on a problem; one that only spins spins for `spun`, in ns.
/// Throws Error{limit} if its passes would take more than 2^61 ns, and what gpu::attention_shape()
/// throws if it has passes.
[[nodiscard]] TimeModel time_model_of(const Machine& machine, const KernelTimes& times,
                                      const Problem& problem, const Timing& spun);

/// A timing model in ns whose ticks last so long. Throws Error{limit} above 2^60 ns.
[[nodiscard]] Timing in_ns(const Timing& timing, std::int64_t tick_ns);

/// Makes no more SMs resident than the device has: one CTA an SM.
void fit(Timing& timing, const Problem& problem, std::int32_t sms);

}  // namespace stagger::workbench
