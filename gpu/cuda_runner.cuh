#pragma once

#include "core/table.hpp"
#include "gpu/backward.hpp"
#include "gpu/cuda_table.cuh"
#include "gpu/device_buffer.cuh"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace stagger::gpu {

/// A table and its run's books in device memory, and the launch.
class CudaRunner {
 public:
  /// Requires is_complete(table).
  CudaRunner(const Table& table, const BackwardOptions& options);

  /// Shared memory that one CTA needs so that an SM holds no second one: an SM plays one lane at a
  /// time, as in the model. Throws Error{device} if `needed` is more than a CTA can have.
  [[nodiscard]] static std::size_t shared_bytes(std::size_t needed);

  /// Plays the table with a kernel (CudaTable, CudaRun, Parameters); gradients and partials are the
  /// caller's. Throws Error{device} before the launch if more CTAs would have to be resident than
  /// the device holds.
  template <class Parameters>
  [[nodiscard]] Backward play(void (*kernel)(CudaTable, CudaRun, Parameters), Parameters parameters,
                              std::size_t shared_bytes) {
    return play(reinterpret_cast<const void*>(kernel), &parameters, shared_bytes);
  }

 private:
  [[nodiscard]] Backward play(const void* kernel, void* parameters, std::size_t shared_bytes);
  void expect_resident(const void* kernel, std::size_t shared_bytes) const;
  [[nodiscard]] std::int64_t launch(const void* kernel, void* parameters, std::size_t shared_bytes);
  [[nodiscard]] Backward results(std::int64_t elapsed_ns) const;

  const Table& source_;
  std::int32_t ctas_;
  DeviceBuffer<CudaSlot> slots_;
  DeviceBuffer<std::int64_t> lane_begin_;
  DeviceBuffer<std::int64_t> places_;
  DeviceBuffer<std::int32_t> locks_;
  DeviceBuffer<std::int32_t> counts_;
  DeviceBuffer<std::int64_t> witness_;
  DeviceBuffer<TaskTimes> times_;
  DeviceBuffer<std::int64_t> next_slots_;
  DeviceBuffer<Sm> lane_sms_;
  DeviceBuffer<std::int32_t> smids_;
  DeviceBuffer<std::int32_t> flags_;  ///< lanes taken, stop
  CudaTable table_;
  CudaRun run_;
};

}  // namespace stagger::gpu
