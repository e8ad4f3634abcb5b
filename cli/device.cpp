#include "cli/device.hpp"

#include "cli/terminal.hpp"
#include "gpu/cuda/executor.hpp"

#include <string>

namespace stagger::cli {

bool has_device(const char* instead) {
  if (gpu::cuda_device()) return true;
  complain(std::string(gpu::has_cuda() ? "there is no CUDA device" : "this build has no CUDA") +
           ": " + instead);
  return false;
}

}  // namespace stagger::cli
