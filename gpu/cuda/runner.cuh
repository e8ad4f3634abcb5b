#pragma once

#include "core/table.hpp"
#include "gpu/check/checked_runs.hpp"
#include "gpu/cuda/device_buffer.cuh"
#include "gpu/cuda/table.cuh"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace stagger::gpu::cuda {

/// A kernel that plays a table: kernel(DeviceTable, DeviceRun, Parameters), one CTA an SM.
struct Kernel {
  template <class Parameters>
  Kernel(void (*kernel)(DeviceTable, DeviceRun, Parameters), const Parameters& parameters,
         std::size_t bytes, int number_of_threads)
      : function(reinterpret_cast<const void*>(kernel)),
        parameters(&parameters),
        shared_bytes(bytes),
        threads(number_of_threads) {}
  Kernel(const void* kernel, const void* its_parameters, std::size_t bytes, int number_of_threads)
      : function(kernel),
        parameters(its_parameters),
        shared_bytes(bytes),
        threads(number_of_threads) {}

  const void* function;
  const void* parameters;
  std::size_t shared_bytes;  ///< dynamic
  int threads;               ///< of a CTA
};

/// How the CTAs of a grid start.
enum class Start {
  /// All are resident before any of them starts, or the launch fails: else a CTA could wait for one
  /// that the device has not started and, with no SM left, never will.
  together,
  any_time,  ///< as there is room: for DeviceRun::late
};

/// Lets a kernel have its shared memory on the current device; before its first launch there.
void admit_shared_bytes(const Kernel& kernel);

/// Enqueues a kernel.
void launch(const Kernel& kernel, std::int32_t ctas, void** arguments, Start start,
            cudaStream_t stream);

/// How many semaphores a tile has, all passed on in the order of the ranks.
struct Semaphores {
  std::int32_t of_q = 1;   ///< a dQ tile
  std::int32_t of_kv = 1;  ///< dK and dV of a KV tile, where parts are added in order
};

/// A table and what a run of it leaves behind, in device memory, and the launch.
class Runner {
 public:
  /// Requires is_complete(table).
  Runner(const Table& table, const BackwardOptions& options, Semaphores semaphores = {});

  /// Returns the shared memory that one CTA asks for so that an SM holds no second one: an SM plays
  /// one lane at a time, as in the model. Throws Error{unsupported} if `needed` is more than a CTA
  /// can have.
  [[nodiscard]] static std::size_t shared_bytes(std::size_t needed);

  /// Plays the table; gradients and partials are the caller's. `before` and `after` are enqueued
  /// with the kernel and belong to the time that the run takes. Three such runs come first if
  /// `warm`, as in untimed_runs(). Throws Error{device} before the launch if more CTAs would have
  /// to be resident than the device holds.
  using Enqueue = std::function<void(const DeviceRun&)>;
  [[nodiscard]] Backward play(
      const Kernel& kernel, const Enqueue& before = [](const DeviceRun&) {},
      const Enqueue& after = [](const DeviceRun&) {}, bool warm = false);

  /// Plays `warmups` untimed runs, `runs` that are timed, each after a pause, and as many in a row,
  /// or until one is stopped; gradients are the caller's. `before` has to zero run.locks,
  /// dkv_locks, lanes_taken and stop.
  [[nodiscard]] UntimedRuns untimed_runs(const Kernel& kernel, const Enqueue& before,
                                         const Enqueue& after, int warmups, int runs);

 private:
  /// Gives KV tiles locks where the parts of dK and dV are added in order.
  void make_dkv_locks(const Problem& problem);
  void prepare(const Kernel& kernel) const;
  [[nodiscard]] bool has_stopped() const { return flags_.download()[1] != 0; }
  void launch(const Kernel& kernel, const DeviceRun& run) const;
  /// Returns the ns of a whole run.
  [[nodiscard]] std::int64_t time_one(const Kernel& kernel, const DeviceRun& run,
                                      const Enqueue& before, const Enqueue& after) const;
  /// Returns the ns of a run's `before` and `after` alone.
  [[nodiscard]] std::int64_t time_passes(const Kernel& kernel, const DeviceRun& run,
                                         const Enqueue& before, const Enqueue& after) const;
  /// Returns the run without stamps or witness: nothing is kept but the locks.
  [[nodiscard]] DeviceRun untimed() const;
  [[nodiscard]] Backward results(std::int64_t elapsed_ns) const;

  const Table& source_;
  Semaphores semaphores_;
  std::int32_t ctas_;
  DeviceBuffer<DeviceSlot> slots_;
  DeviceBuffer<std::int64_t> lane_begin_;
  DeviceBuffer<std::int64_t> places_;
  DeviceBuffer<std::int32_t> locks_;
  DeviceBuffer<std::int32_t> counts_;
  DeviceBuffer<std::int64_t> witness_;
  DeviceBuffer<std::uint8_t> delays_;
  DeviceBuffer<TaskClocks> times_;
  DeviceBuffer<Sm> lane_sms_;
  DeviceBuffer<std::int32_t> smids_;
  DeviceBuffer<std::int32_t> flags_;  ///< lanes taken, stop
  DeviceBuffer<std::int32_t> dkv_ranks_;
  DeviceBuffer<std::int32_t> dkv_locks_;
  DeviceBuffer<std::int32_t> dkv_counts_;
  DeviceBuffer<std::int32_t> dkv_witness_;
  DeviceBuffer<ChainTimes> chain_times_;
  DeviceTable table_;
  DeviceRun run_;
};

}  // namespace stagger::gpu::cuda
