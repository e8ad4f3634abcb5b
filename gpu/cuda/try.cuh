#pragma once

#include "core/error.hpp"

#include <cuda_runtime.h>

#include <string>

namespace stagger::gpu {

/// Throws Error{device} if `status` is a failure, and clears it.
inline void cuda_try(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());
  throw Error(ErrorKind::device,
              std::string("CUDA: ") + cudaGetErrorString(status) + " (" + call + ")");
}

}  // namespace stagger::gpu

#define STAGGER_CUDA_TRY(call) ::stagger::gpu::cuda_try(call, #call)
