#include "gpu/hopper/kernel.cuh"

namespace stagger::gpu::hopper {

template <class T, int kHeadDim, int kStepQ>
const void* kernel_with_bits() {
  return reinterpret_cast<const void*>(backward<T, kHeadDim, kStepQ, true>);
}

template const void* kernel_with_bits<__nv_bfloat16, 64, 64>();
template const void* kernel_with_bits<__nv_bfloat16, 64, 80>();
template const void* kernel_with_bits<__nv_bfloat16, 64, 128>();
template const void* kernel_with_bits<__nv_bfloat16, 128, 64>();
template const void* kernel_with_bits<__nv_bfloat16, 128, 80>();
template const void* kernel_with_bits<__half, 64, 64>();
template const void* kernel_with_bits<__half, 64, 80>();
template const void* kernel_with_bits<__half, 64, 128>();
template const void* kernel_with_bits<__half, 128, 64>();
template const void* kernel_with_bits<__half, 128, 80>();

}  // namespace stagger::gpu::hopper
