#include "cli/device.hpp"

#include "gpu/cuda/executor.hpp"

#include <fmt/format.h>

#include <cstdio>

namespace stagger::cli {

bool has_device() {
  if (gpu::cuda_device()) return true;
  fmt::print(stderr, "stagger: {}: `--device cpu` runs the same table on threads\n",
             gpu::has_cuda() ? "there is no CUDA device" : "this build has no CUDA");
  return false;
}

}  // namespace stagger::cli
