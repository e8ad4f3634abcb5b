#pragma once

#include "core/table.hpp"
#include "core/timing.hpp"
#include "gpu/check/backward.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace stagger::gpu {

/// PhaseSamples::load of a device all of whose SMs reduce.
inline constexpr std::int64_t kFullLoad = 1'000;

/// A table and a run of it whose times were taken.
struct TimedRun {
  const Table* table = nullptr;
  const Backward* run = nullptr;
};

/// Durations in ns, of every task in which nothing else can be part of them.
struct PhaseSamples {
  /// Compute phases that follow another one of their chain and did not wait for the dQ slot.
  std::vector<std::int64_t> compute;
  std::vector<std::int64_t> compute_partial;  ///< such phases on partial tiles
  std::vector<std::int64_t> first;            ///< compute phases that begin a chain
  std::vector<std::int64_t> first_partial;
  std::vector<std::int64_t> between;  ///< from where a compute phase could start to its start
  std::vector<std::int64_t> taking;   ///< from being ready to reduce to the turn, without a wait
  std::vector<std::int64_t> reduce;   ///< from the turn to the reduction's end
  std::vector<std::int64_t> latency;  ///< from a reduction's end to the turn that waited for it
  /// How busy the device was then, of each `latency`: SMs of a thousand whose turn to reduce came
  /// within a cycle (Timing::cycle) before that reduction's.
  std::vector<std::int64_t> load;
  /// From the end of a part's reduction into dK and dV to that of the next rank's, which waited for
  /// it: a hand-over and a reduction.
  std::vector<std::int64_t> parts;
  std::vector<std::int64_t> parts_load;  ///< as `load`, of each of `parts`
  /// From a chain's end to the next chain on its SM; in the overlap model of the same lane.
  std::vector<std::int64_t> chain_gap;
};

/// Takes apart what tasks' times say of each phase in a timing model:
///
///   chain    a compute phase could start at the end of the reduction before it
///   overlap  at the hand-over: the later of compute's end and the end of the reduction before
///
/// Runs without reductions give compute phases and gaps. Requires runs that finished, with
/// immediate release. O(tasks log tasks).
[[nodiscard]] PhaseSamples phase_samples(std::span<const TimedRun> runs, Model model);

}  // namespace stagger::gpu
