#pragma once

#include "gpu/cuda/try.cuh"

namespace stagger::gpu::overlap {

/// A stream of its own, which no other waits for by itself.
class Stream {
 public:
  Stream() { STAGGER_CUDA_TRY(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() { static_cast<void>(cudaStreamDestroy(stream_)); }
  [[nodiscard]] cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

/// A point in a stream, and its time.
class Event {
 public:
  Event() { STAGGER_CUDA_TRY(cudaEventCreate(&event_)); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() { static_cast<void>(cudaEventDestroy(event_)); }
  void record(const Stream& stream) { STAGGER_CUDA_TRY(cudaEventRecord(event_, stream.get())); }
  void precede(const Stream& stream) const {
    STAGGER_CUDA_TRY(cudaStreamWaitEvent(stream.get(), event_));
  }
  [[nodiscard]] double ms_since(const Event& begin) const {
    float ms = 0;
    STAGGER_CUDA_TRY(cudaEventElapsedTime(&ms, begin.event_, event_));
    return ms;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace stagger::gpu::overlap
