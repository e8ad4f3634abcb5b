#include "gpu/hopper/kernels.cuh"

namespace stagger::gpu::hopper {

template const void* main_kernel<Extras::ordered_bits>(const Shape& shape, Dtype dtype);

}  // namespace stagger::gpu::hopper
