#pragma once

#include "gpu/cuda/try.cuh"

#include <cstdint>

namespace stagger::gpu::cuda {

/// Keeps the stream waiting while the host enqueues what comes next. Before a stopwatch begins, it
/// leaves the host's launches out of the time: a device without work waits for each of them.
void hold_stream();

/// Measures device time between two points of the stream.
class Stopwatch {
 public:
  Stopwatch() {
    STAGGER_CUDA_TRY(cudaEventCreate(&begin_));
    STAGGER_CUDA_TRY(cudaEventCreate(&end_));
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;
  ~Stopwatch() {
    static_cast<void>(cudaEventDestroy(begin_));
    static_cast<void>(cudaEventDestroy(end_));
  }
  void begin() { STAGGER_CUDA_TRY(cudaEventRecord(begin_)); }
  void end() { STAGGER_CUDA_TRY(cudaEventRecord(end_)); }
  /// Returns ns; waits for the device.
  [[nodiscard]] std::int64_t elapsed() {
    float ms = 0;
    STAGGER_CUDA_TRY(cudaEventSynchronize(end_));
    STAGGER_CUDA_TRY(cudaEventElapsedTime(&ms, begin_, end_));
    return static_cast<std::int64_t>(1e6 * double{ms});
  }

 private:
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
};

}  // namespace stagger::gpu::cuda
