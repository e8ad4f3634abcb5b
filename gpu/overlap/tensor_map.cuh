#pragma once

#include "gpu/hopper/tensor_map.cuh"

namespace stagger::gpu::overlap {

/// Describes a matrix of rows one behind the other to the copy engine, by boxes of `box_rows` x 64.
inline CUtensorMap matrix_map(__nv_bfloat16* data, std::int64_t rows, std::int64_t columns,
                              int box_rows) {
  const auto width = static_cast<cuuint64_t>(columns);
  const cuuint64_t sizes[] = {width, static_cast<cuuint64_t>(rows), 1, 1};
  const cuuint64_t strides[] = {2 * width, 2 * width, 2 * width};
  return hopper::encoded_map(CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, data, sizes, strides, box_rows);
}

}  // namespace stagger::gpu::overlap
