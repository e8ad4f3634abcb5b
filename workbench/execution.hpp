#pragma once

#include "gpu/check/checked_runs.hpp"
#include "gpu/cuda/executor.hpp"
#include "workbench/analysis.hpp"
#include "workbench/kernels.hpp"
#include "workbench/reference.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace stagger::workbench {

/// A table to be run, and how.
struct ExecutionRequest {
  Source source;
  AnalysisOptions analysis = {};
  std::optional<gpu::CudaDevice> cuda = std::nullopt;  ///< the GPU to run on; absent: threads
  const Kernel* kernel = nullptr;                      ///< required; one that runs there
  gpu::Mode mode = gpu::Mode::deterministic;
  gpu::Dtype dtype = gpu::Dtype::fp32;
  std::int64_t head_dim = 64;
  std::uint64_t seed = 1;                               ///< of the inputs
  std::int64_t repeats = 10;                            ///< runs whose bits must be the same
  std::optional<std::uint64_t> perturb = std::nullopt;  ///< seed of delays in all but the first
  /// Absent: the device's beside a run on the GPU whose problem is large, else the host's.
  std::optional<Reference> reference = std::nullopt;
  bool adds_partials = true;  ///< again, in the table's order
  std::optional<gpu::DropoutOptions> dropout = std::nullopt;
  std::chrono::milliseconds timeout{10'000};  ///< the longest a task may wait for its turn
  std::int32_t threads = 0;                   ///< of the CPU; 0: gpu::default_threads()
  Timing spun = {};                           ///< a kernel that spins: for how long, in ticks
  std::int64_t tick_ns = 1000;                ///< and what such a tick lasts
  std::function<void(const char* what, double fraction)> progress = {};
  std::function<void()> begins = {};  ///< told before the first run
  std::function<bool()> stop = {};    ///< asked after each run: what is done is kept
};

/// A table that was run, and what that showed.
struct Execution {
  Analysis analysis;  ///< what was predicted of the table
  gpu::AttentionShape shape;
  gpu::BackwardOptions options;
  std::uint64_t seed = 0;
  std::optional<gpu::DropoutOptions> dropout;
  std::string device;                   ///< the processor's name
  const Kernel* kernel = nullptr;       ///< never null
  std::optional<gpu::CudaDevice> cuda;  ///< absent: the run was on the CPU
  std::int64_t tick_ns = 0;             ///< of a kernel that spins
  Timing spun = {};                     ///< of one that spins: what its phases do, in ticks
  std::string refused;                  ///< why the table was not launched; empty if it was
  bool device_reference = false;        ///< where the gradients' reference comes from
  bool adds_partials = true;            ///< again, in the table's order, where they fit
  std::int64_t lost_partials = 0;  ///< bytes of those that are too large to be kept; 0: they are
  double flops = 0;
  std::int64_t repeats = 0;              ///< runs that were asked for
  bool cut_short = false;                ///< by `stop`, before all of them
  std::optional<gpu::CheckedRuns> runs;  ///< absent: the table was not run

  /// "ok", "mismatch", "deadlock", "timeout" or "refused"; of a table that was not run "invalid",
  /// or "deadlock" as it hangs besides.
  [[nodiscard]] const char* verdict() const;
  /// Whether a run ended before all tasks had reduced.
  [[nodiscard]] bool stopped() const;
  /// Whether a run is one that a machine profile speaks of: on a GPU, by the ranks and without
  /// dropout.
  [[nodiscard]] bool is_predicted() const;
  /// Partial tiles of all heads of which the mask does not say the pairs: those of a lower triangle
  /// were computed. 0 of a kernel that spins.
  [[nodiscard]] std::int64_t assumed_tiles() const;
  /// The bytes of the bits of dropout; 0 where none are stored.
  [[nodiscard]] std::int64_t stored_bytes() const;
};

/// Analyses a table and, unless it is too broken to be run or would hang for want of CTAs, runs it
/// and checks all that its mode promises. Beside a run on the GPU that was right, untimed runs are
/// timed. Throws Error{limit} if it would take too much memory, Error{device}.
[[nodiscard]] Execution execute(ExecutionRequest request);

/// The measured timeline of the run that is kept. Requires runs.
[[nodiscard]] Timeline timeline_of(const Execution& execution);

/// Why a run stopped, and how much was left to do. Requires one that did.
[[nodiscard]] std::string why_stopped(const Execution& execution);

/// The (head, q) whose accumulation had not ended when a run stopped. Requires one that did.
[[nodiscard]] std::vector<dag::Liveness::Hanging> hanging_tiles(const Execution& execution);

/// The KV tiles of KV heads whose dK and dV were not complete then. Requires one that did.
[[nodiscard]] std::vector<dag::Liveness::HangingDkv> hanging_dkv_tiles(const Execution& execution);

/// From the first task's start to the last reduction's end of the run that is kept, in ns.
[[nodiscard]] std::int64_t measured_makespan(const Execution& execution);

/// The makespan in ns of untimed runs whose median this is: less what the kept run took before its
/// first task and after its last reduction. Only of a run that was warm, as they are.
[[nodiscard]] std::optional<std::int64_t> untimed_makespan(const Execution& execution,
                                                           std::optional<std::int64_t> median_ns);

/// What stamps cost, as a part of the run: beside the untimed run just before it where there was
/// one, as the clock is then the same, else beside the median of untimed runs.
[[nodiscard]] std::optional<double> stamp_overhead(const Execution& execution);

/// What a whole run is predicted to take, in ns. Requires an analysis in ns whose verdict is ok.
[[nodiscard]] Ticks predicted_elapsed(const Analysis& analysis);

/// predicted / measured - 1.
[[nodiscard]] double error_of(Ticks predicted, std::int64_t measured);

}  // namespace stagger::workbench
