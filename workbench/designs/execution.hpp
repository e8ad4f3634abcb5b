#pragma once

#include "gpu/check/checked_runs.hpp"
#include "gpu/check/program.hpp"
#include "gpu/cpu/program_executor.hpp"
#include "gpu/cuda/executor.hpp"
#include "gpu/cuda/program_executor.hpp"
#include "workbench/designs/analysis.hpp"
#include "workbench/reference.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace stagger::designs {

/// What a device does of a plan of free lanes. Requires one.
[[nodiscard]] gpu::Program program_of(const Design& design, const Plan& plan);

/// A design to be run, and how.
struct ExecutionRequest {
  Selection selection;
  Request request;
  std::optional<gpu::CudaDevice> cuda = std::nullopt;  ///< the GPU to run on; absent: threads
  gpu::ProgramDevice on_cpu = gpu::program_on_cpu;     ///< what threads run it by,
  gpu::ProgramDevice on_cuda = gpu::program_on_cuda;   ///< and the GPU
  gpu::Dtype dtype = gpu::Dtype::fp32;
  std::uint64_t seed = 1;                               ///< of the inputs
  std::int64_t repeats = 10;                            ///< runs whose bits must be the same
  std::optional<std::uint64_t> perturb = std::nullopt;  ///< seed of delays in all but the first
  /// Absent: the device's beside a run on the GPU whose problem is large, else the host's.
  std::optional<workbench::Reference> reference = std::nullopt;
  bool adds_partials = true;             ///< again, in the design's order
  std::chrono::milliseconds timeout{0};  ///< of a run; 0: ever, on a GPU gpu::kLongestProgram
  std::int32_t threads = 0;              ///< of the CPU; 0: as many as cores
  std::function<void(const char* what, double fraction)> progress = {};
  std::function<void()> begins = {};  ///< told before the first run
  std::function<bool()> stop = {};    ///< asked after each run: what is done is kept
};

/// A design that was run, and what that showed.
struct Execution {
  Analysis analysis;  ///< what was predicted
  Problem problem;    ///< as it was asked for
  gpu::Dtype dtype = gpu::Dtype::fp32;
  std::int64_t head_dim = 0;
  std::uint64_t seed = 0;
  std::optional<std::uint64_t> perturb = std::nullopt;
  std::int32_t threads = 0;
  std::string device;                   ///< the processor's name
  std::optional<gpu::CudaDevice> cuda;  ///< absent: the runs were on the CPU
  std::chrono::milliseconds timeout{0};
  bool device_reference = false;   ///< where the gradients' reference comes from
  std::int64_t lost_partials = 0;  ///< bytes of those that are too large to be kept; 0: they are
  double flops = 0;                ///< of the gradients, five GEMMs of each pair
  std::int64_t asked = 0;          ///< runs that were asked for
  bool cut_short = false;          ///< by `stop`, before all of them
  bool timed_out = false;          ///< a run was too slow and was stopped
  std::int64_t repeats = 0;        ///< runs that finished
  double bound = 0;                ///< that errors are held to
  std::vector<gpu::RunFault> faults = {};
  std::optional<gpu::GradientErrors> errors = std::nullopt;
  gpu::Digests digests = {};                         ///< of the first run
  bool identical = true;                             ///< every run has the first's bits
  bool order_matches = true;                         ///< every run added as the design says
  std::optional<bool> reaccumulated = std::nullopt;  ///< the host's sum of partials is dQ
  std::int64_t median_ns = 0;                        ///< of the runs without delays
  /// On a GPU, of as many runs of nothing but the kernels: no witness, no partials.
  std::optional<std::int64_t> untimed_median_ns = std::nullopt;

  [[nodiscard]] bool ok() const { return faults.empty(); }
  [[nodiscard]] const char* verdict() const {
    return timed_out ? "timeout" : ok() ? "ok" : "mismatch";
  }
};

/// Runs a design of free lanes and checks all that it promises: right gradients, the same bits in
/// every run, its own order of additions, and a host sum in that order with the same bits. Throws
/// Error{unsupported} if it does not apply, Error{limit} if it would take too much memory,
/// Error{device}.
[[nodiscard]] Execution execute(const ExecutionRequest& request);

}  // namespace stagger::designs
