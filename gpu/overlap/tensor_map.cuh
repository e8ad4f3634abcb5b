#pragma once

#include "core/error.hpp"
#include "gpu/cuda/try.cuh"
#include "gpu/hopper/wgmma.cuh"

#include <cuda.h>

#include <string>

namespace stagger::gpu::overlap {

/// Describes a matrix of rows one behind the other to the copy engine, by boxes of `rows` x 64.
inline CUtensorMap matrix_map(__nv_bfloat16* data, std::int64_t rows, std::int64_t columns,
                              int box_rows) {
  // The driver's own function, asked for at run time, so that nothing links to the driver.
  static const auto encode = [] {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found;
    STAGGER_CUDA_TRY(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                                      cudaEnableDefault, &found));
    return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function);
  }();
  if (encode == nullptr) throw Error(ErrorKind::device, "the driver has no bulk tensor copies");
  const auto width = static_cast<cuuint64_t>(columns);
  const cuuint64_t sizes[] = {width, static_cast<cuuint64_t>(rows), 1, 1};
  const cuuint64_t strides[] = {2 * width, 2 * width, 2 * width};
  const cuuint32_t box[] = {hopper::kPanelColumns, static_cast<cuuint32_t>(box_rows), 1, 1};
  const cuuint32_t steps[] = {1, 1, 1, 1};
  CUtensorMap map;
  const CUresult result =
      encode(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 4, data, sizes, strides, box, steps,
             CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) {
    throw Error(ErrorKind::device,
                "CUDA: no tensor map, error " + std::to_string(static_cast<int>(result)));
  }
  return map;
}

}  // namespace stagger::gpu::overlap
