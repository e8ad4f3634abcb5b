#pragma once

#include "core/table.hpp"
#include "gpu/check/attention.hpp"
#include "gpu/check/backward.hpp"
#include "gpu/check/cross_check.hpp"
#include "gpu/check/reference.hpp"
#include "gpu/check/replay_times.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace stagger::gpu {

enum class RunVerdict {
  ok,        ///< right gradients and, in deterministic mode, the same bits in the table's order
  mismatch,  ///< a fault says what is not
  deadlock,
  timeout,
};
[[nodiscard]] const char* verdict_name(RunVerdict verdict);

/// A promise that a run did not keep.
struct RunFault {
  const char* kind;  ///< gradient, bits, order, reaccumulation, stopped
  std::string message;
};

/// How far the gradients are off; dQ's is absent in no-reduce mode.
struct GradientErrors {
  std::optional<Deviation> dq;
  Deviation dk;
  Deviation dv;
};

/// What repeated runs of one table showed.
struct CheckedRuns {
  RunVerdict verdict = RunVerdict::ok;
  std::vector<RunFault> faults;
  Backward run;              ///< the first, or the one that did not finish
  std::int64_t repeats = 0;  ///< runs that finished
  Dtype dtype = Dtype::fp32;
  double bound = 0;  ///< that errors are held to

  // Of the runs that finished, if any did:
  std::optional<GradientErrors> errors;  ///< of the first
  Digests digests;                       ///< of the first
  bool identical = true;                 ///< every run has the first's bits, dq_sums included
  double dq_difference = 0;              ///< the largest of an element of dQ to the first run's
  bool order_matches = true;             ///< of every run; true in no-reduce mode
  /// Whether the host gets the same bits of the partials; known in deterministic mode, if they were
  /// kept and the ranks are an order.
  std::optional<bool> reaccumulated;
  std::int64_t median_ns = 0;  ///< elapsed_ns of the runs without delays
  // As check_untimed_runs() found them:
  std::optional<std::int64_t> untimed_median_ns = std::nullopt;  ///< of those in a row
  std::optional<std::int64_t> rested_median_ns = std::nullopt;   ///< of those after a pause
};

using Device = Backward (*)(const Table&, const Attention&, const BackwardOptions&);

/// Whether there is to be one run more, after so many that finished; asked after each of them.
using GoesOn = std::function<bool(std::int64_t finished)>;

/// Runs a table `repeats` times and checks everything that its mode promises; the partials of the
/// first run, if `partials` says that there is memory for them (partial_bytes()). With a seed in
/// options.perturb the first run is left alone and each later one has delays of its own seed, from
/// that one upwards. Stops at the first run that does not finish, or when `goes_on` says so.
/// Without `exact` the gradients are not judged. Requires repeats >= 1.
[[nodiscard]] CheckedRuns check_runs(const Table& table, const Attention& attention,
                                     const ReferenceGradients* exact,
                                     const BackwardOptions& options, std::int64_t repeats,
                                     Device device, bool partials = true,
                                     const GoesOn& goes_on = {});

/// A device whose tasks compute nothing.
struct Replay {
  Backward (*device)(const Table&, const ReplayTimes&, const BackwardOptions&) = nullptr;
  ReplayTimes times;
};

/// Runs a replay as check_runs() runs a device. Only its order can be checked: no errors, digests
/// or bits.
[[nodiscard]] CheckedRuns check_replays(const Table& table, const BackwardOptions& options,
                                        std::int64_t repeats, const Replay& replay,
                                        const GoesOn& goes_on = {});

/// Untimed runs, without stamps or delays: what times are measured by. Some ten milliseconds of
/// work without a pause make a device lower its clock, for as long as there is none: so runs are
/// timed both ways.
struct UntimedRuns {
  std::vector<std::int64_t> rested_ns;   ///< each after a pause; empty if there were none such
  std::vector<std::int64_t> elapsed_ns;  ///< in a row, of those that finished
  Backward last;  ///< what the last left, no stamps or witness needed; one that was stopped is last
};

/// A device that can leave out more of an untimed run than stamps: `warmups` that do not count come
/// before `runs` that are rested and as many in a row.
using UntimedDevice = UntimedRuns (*)(const Table&, const Attention&, const BackwardOptions&,
                                      int warmups, int runs);

/// Runs a table untimed on any device, `runs` times or until a run is stopped.
[[nodiscard]] UntimedRuns untimed_runs(const Table& table, const Attention& attention,
                                       const BackwardOptions& options, int runs, Device device);

/// Replays a table untimed, `runs` times or until a run is stopped.
[[nodiscard]] UntimedRuns untimed_replays(const Table& table, const BackwardOptions& options,
                                          int runs, const Replay& replay);

/// Keeps the medians of untimed runs in `checked` if they kept their promises: all finished and,
/// but in atomic mode, the last left the bits of the first checked run. Else a fault says what they
/// did not, and no time is kept. Requires checked runs of the same table and mode that were ok.
void check_untimed_runs(const UntimedRuns& untimed, Mode mode, CheckedRuns& checked);

}  // namespace stagger::gpu
