#pragma once

#include "gpu/cuda/try.cuh"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace stagger::gpu::cuda {

/// An array in device memory. Never managed memory: a program that asks for more of that than there
/// is can hang the GPU.
template <class T>
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  explicit DeviceBuffer(std::size_t size) : size_(size) {
    if (size > 0) STAGGER_CUDA_TRY(cudaMalloc(&data_, size * sizeof(T)));
  }
  explicit DeviceBuffer(const std::vector<T>& values) : DeviceBuffer(values.size()) {
    copy(data_, values.data(), cudaMemcpyHostToDevice);
  }
  DeviceBuffer(DeviceBuffer&& other) noexcept { swap(other); }
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~DeviceBuffer() { static_cast<void>(cudaFree(data_)); }

  /// Sets every byte.
  void fill(int byte) {
    if (size_ > 0) STAGGER_CUDA_TRY(cudaMemset(data_, byte, size_ * sizeof(T)));
  }
  /// Requires as many values as there are.
  void upload(const std::vector<T>& values) { copy(data_, values.data(), cudaMemcpyHostToDevice); }
  [[nodiscard]] std::vector<T> download() const {
    std::vector<T> values(size_);
    copy(values.data(), data_, cudaMemcpyDeviceToHost);
    return values;
  }
  /// Returns the address on the device; nullptr if empty.
  [[nodiscard]] T* data() const { return data_; }

 private:
  void copy(T* to, const T* from, cudaMemcpyKind kind) const {
    if (size_ > 0) STAGGER_CUDA_TRY(cudaMemcpy(to, from, size_ * sizeof(T), kind));
  }
  void swap(DeviceBuffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }

  T* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace stagger::gpu::cuda
