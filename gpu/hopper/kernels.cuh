#pragma once

// The kernel of each shape and format, by what it does beside: a file for each.

#include "gpu/hopper/dispatch.cuh"
#include "gpu/hopper/kernel.cuh"

namespace stagger::gpu::hopper {

template <Extras kExtras>
const void* main_kernel(const Shape& shape, Dtype dtype) {
  return with_shape(shape, dtype,
                    []<class T, int kHeadDim, int kStepQ>(Instance<T, kHeadDim, kStepQ>) {
                      return reinterpret_cast<const void*>(backward<T, kHeadDim, kStepQ, kExtras>);
                    });
}

}  // namespace stagger::gpu::hopper
