#include "workbench/kernels.hpp"

#include "core/error.hpp"
#include "core/nearest.hpp"
#include "gpu/cpu/executor.hpp"
#include "gpu/cuda/executor.hpp"
#include "gpu/hopper/hopper.hpp"
#include "gpu/hopper/shape.hpp"

#include <algorithm>
#include <array>
#include <string>

namespace stagger::workbench {
namespace {

std::int32_t hopper_steps(std::int64_t head_dim, const TileShape& tile) {
  const gpu::hopper::Shape* const shape = gpu::hopper::find_shape(head_dim, tile.q, tile.kv);
  return shape == nullptr ? 1 : shape->steps();
}

// A new kernel is a row here.
constexpr std::array<Kernel, 3> kKernels = {{
    {.name = "portable",
     .summary = "plain arithmetic",
     .model = Model::chain,
     .on_cpu = gpu::backward_on_cpu,
     .on_cuda = gpu::backward_on_cuda,
     .untimed = nullptr,
     .passes = false,
     .cut_partial = false,
     .steps = nullptr},
    {.name = "hopper",
     .summary = "as a fast kernel does it: CUDA, sm_90",
     .model = Model::overlap,
     .on_cpu = nullptr,
     .on_cuda = gpu::backward_on_hopper,
     .untimed = gpu::untimed_runs_on_hopper,
     .passes = true,
     .cut_partial = true,
     .steps = hopper_steps},
    {.name = "replay",
     .summary = "its locks alone, phases spin: CUDA",
     .model = Model::chain,
     .on_cpu = nullptr,
     .on_cuda = nullptr,
     .untimed = nullptr,
     .passes = false,
     .cut_partial = false,
     .steps = nullptr},
}};

}  // namespace

std::span<const Kernel> kernels() {
  return kKernels;
}

const Kernel& kernel_of(std::string_view name) {
  const auto kernel = std::ranges::find(kKernels, name, &Kernel::name);
  if (kernel != kKernels.end()) return *kernel;
  throw Error(ErrorKind::usage, unknown_name("kernel", name, names_of(kKernels)));
}

KernelKey kernel_key(std::string_view kernel, std::string_view dtype, std::int64_t head_dim) {
  KernelKey key{.kernel = std::string(kernel)};
  const bool spins = std::ranges::any_of(
      kKernels, [&](const Kernel& each) { return each.name == kernel && each.spins(); });
  if (spins) return key;
  key.dtype = dtype;
  key.head_dim = head_dim;
  return key;
}

}  // namespace stagger::workbench
