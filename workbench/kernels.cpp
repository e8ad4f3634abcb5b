#include "workbench/kernels.hpp"

#include "core/error.hpp"
#include "gpu/cuda/executor.hpp"
#include "gpu/hopper/hopper.hpp"

#include <algorithm>
#include <array>
#include <string>

namespace stagger::workbench {
namespace {

// A new kernel is a row here.
constexpr std::array<Kernel, 3> kKernels = {{
    {.name = "portable",
     .summary = "plain arithmetic",
     .model = Model::chain,
     .run = gpu::backward_on_cuda,
     .bare = nullptr,
     .passes = false},
    {.name = "hopper",
     .summary = "as a fast kernel does it: CUDA, sm_90",
     .model = Model::overlap,
     .run = gpu::backward_on_hopper,
     .bare = gpu::bare_runs_on_hopper,
     .passes = true},
    {.name = "replay",
     .summary = "its locks alone, phases spin: CUDA",
     .model = Model::chain,
     .run = nullptr,
     .bare = nullptr,
     .passes = false},
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

gpu::Dtype dtype_of(std::string_view name) {
  std::string known;
  for (const gpu::Dtype dtype : {gpu::Dtype::fp32, gpu::Dtype::bf16, gpu::Dtype::fp16}) {
    if (name == gpu::dtype_name(dtype)) return dtype;
    known += (known.empty() ? "" : ", ") + std::string(gpu::dtype_name(dtype));
  }
  throw Error(ErrorKind::usage, "unknown dtype '" + std::string(name) + "'; known: " + known);
}

KernelKey kernel_key(std::string_view kernel, std::string_view dtype, std::int64_t head_dim) {
  KernelKey key{.kernel = std::string(kernel)};
  const auto known = std::ranges::find(kKernels, kernel, &Kernel::name);
  if (known != kKernels.end() && known->spins()) return key;
  key.dtype = dtype;
  key.head_dim = head_dim;
  return key;
}

}  // namespace stagger::workbench
