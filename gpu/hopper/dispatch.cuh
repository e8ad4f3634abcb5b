#pragma once

// From a shape and a format that are values to those that are template arguments.

#include "core/error.hpp"
#include "gpu/hopper/shape.hpp"
#include "gpu/numerics/dtype.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace stagger::gpu::hopper {

/// One of kShapes and a format, as template arguments.
template <class T, int kHeadDim, int kStepQ>
struct Instance {};

/// Calls `what` with the instance of one of kShapes.
template <class T, class What>
decltype(auto) with_shape(const Shape& shape, const What& what) {
  if (shape.head_dim == 64) {
    if (shape.step_q == 64) return what(Instance<T, 64, 64>{});
    if (shape.step_q == 80) return what(Instance<T, 64, 80>{});
    return what(Instance<T, 64, 128>{});
  }
  return shape.step_q == 64 ? what(Instance<T, 128, 64>{}) : what(Instance<T, 128, 80>{});
}

/// Likewise of a shape and a format of 16 bits.
template <class What>
decltype(auto) with_shape(const Shape& shape, Dtype dtype, const What& what) {
  STAGGER_EXPECTS(dtype != Dtype::fp32);
  return dtype == Dtype::bf16 ? with_shape<__nv_bfloat16>(shape, what)
                              : with_shape<__half>(shape, what);
}

}  // namespace stagger::gpu::hopper
