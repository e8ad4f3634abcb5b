#pragma once

#include "gpu/cuda/runner.cuh"
#include "gpu/hopper/call.hpp"
#include "gpu/hopper/shared.cuh"

namespace stagger::gpu::hopper {

struct Kernels;

/// A backward pass over tensors in device memory, as three kernels that follow each other: what
/// comes before the table's, that, and what comes after it. Nothing is allocated or waited for.
class Pass {
 public:
  /// Describes the tensors to the copy engine. Keeps a reference to the plan. Throws Error{device}
  /// if the driver cannot.
  Pass(const Plan& plan, const Call& call);

  /// The table's kernel. Refers to this.
  [[nodiscard]] cuda::Kernel kernel() const;

  /// The table, as the device finds it in the plan's image.
  [[nodiscard]] cuda::DeviceTable table() const;
  /// An untimed run, with semaphores and flags in the workspace.
  [[nodiscard]] cuda::DeviceRun untimed_run() const;

  void before(const cuda::DeviceRun& run, cudaStream_t stream) const;
  void after(const cuda::DeviceRun& run, cudaStream_t stream) const;

 private:
  /// Makes semaphores of dK and dV begin with 0, and where nobody stores first the sums.
  void clear_dkv(const cuda::DeviceRun& run, cudaStream_t stream) const;
  template <class T>
  [[nodiscard]] T* of_workspace(std::int64_t place) const {
    return reinterpret_cast<T*>(static_cast<std::byte*>(call_.workspace) + place);
  }
  template <class T>
  [[nodiscard]] const T* of_plan(std::int64_t place) const {
    return reinterpret_cast<const T*>(static_cast<const std::byte*>(call_.plan) + place);
  }
  template <class T, int kHeadDim, int kStepQ>
  void preprocess_with(const cuda::DeviceRun& run, cudaStream_t stream) const;
  template <class T, int kHeadDim, int kStepQ>
  void convert_with(const cuda::DeviceRun& run, cudaStream_t stream) const;
  friend struct Kernels;

  const Plan& plan_;
  Call call_;
  const Kernels& kernels_;
  Parameters parameters_;
};

}  // namespace stagger::gpu::hopper
