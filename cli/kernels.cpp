#include "cli/kernels.hpp"

#include "core/error.hpp"
#include "gpu/cuda_executor.hpp"

#include <array>
#include <string>

namespace stagger::cli {
namespace {

// A new kernel is a row here.
constexpr std::array<Kernel, 2> kKernels = {{
    {.name = "portable", .model = Model::chain, .run = gpu::backward_on_cuda},
    {.name = "replay", .model = Model::chain, .run = nullptr},
}};

}  // namespace

std::span<const Kernel> kernels() {
  return kKernels;
}

const Kernel& kernel_of(std::string_view name) {
  std::string known;
  for (const Kernel& kernel : kKernels) {
    if (kernel.name == name) return kernel;
    known += (known.empty() ? "" : ", ") + std::string(kernel.name);
  }
  throw Error(ErrorKind::usage, "unknown kernel '" + std::string(name) + "'; known: " + known);
}

}  // namespace stagger::cli
