#pragma once

#include "gpu/cuda/executor.hpp"
#include "workbench/calibration/calibration.hpp"
#include "workbench/calibration/memory_fit.hpp"
#include "workbench/kernels.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <vector>

namespace stagger::workbench {

/// A kernel to be calibrated, in the shape that it is to be predicted in.
struct CalibrationRequest {
  const Kernel* kernel = nullptr;  ///< required
  gpu::Dtype dtype = gpu::Dtype::fp32;
  std::int64_t head_dim = 64;   ///< elements
  TileShape tile;               ///< tokens
  std::int64_t tick_ns = 1000;  ///< a kernel that spins: what a tick lasts
  std::chrono::milliseconds timeout{10'000};
  std::function<void(double fraction)> progress = {};

  /// What a machine profile finds the kernel's entry by.
  [[nodiscard]] KernelKey key() const;
};

/// Runs the kernel's calibration set on the first GPU, which must be there: each table by the ranks
/// and each problem once without reductions, the run of median length of several. Throws
/// Error{device} if one does not finish.
[[nodiscard]] std::vector<CalibrationRun> measure(const CalibrationRequest& request,
                                                  std::int32_t sms);

/// What those runs say of the kernel.
[[nodiscard]] Evidence evidence_of(const CalibrationRequest& request,
                                   const std::vector<CalibrationRun>& runs);

/// The kernel's phases by that; of a kernel that spins, what the machine adds to that.
[[nodiscard]] Calibration calibrate(const CalibrationRequest& request, const Evidence& evidence);

/// Runs tables (memory_calibration_set()) by the ranks, on a kernel whose phases take `times` and a
/// device of whose memory the latency is known, what streams, and what additions take of its
/// channels. Tables of another number of heads than the one before begin a group. Requires a kernel
/// that does not spin.
[[nodiscard]] std::vector<MemoryRun> measure_memory(const CalibrationRequest& request,
                                                    std::vector<Table> tables,
                                                    const KernelTimes& times,
                                                    const DeviceMemory& known);

}  // namespace stagger::workbench
