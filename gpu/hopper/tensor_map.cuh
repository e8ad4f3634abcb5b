#pragma once

// What tells the copy engine of a tensor in device memory.

#include "core/error.hpp"
#include "gpu/cuda/try.cuh"
#include "gpu/hopper/wgmma.cuh"

#include <cuda.h>

#include <string>

namespace stagger::gpu::hopper {

/// Describes a tensor of two bytes an element to the copy engine, the innermost dimension first and
/// dense, by boxes of `rows` of the second dimension and a panel's columns, swizzled as wgmma reads
/// them. `strides`: bytes of the other three dimensions. Throws Error{device}.
inline CUtensorMap encoded_map(CUtensorMapDataType type, void* data, const cuuint64_t (&sizes)[4],
                               const cuuint64_t (&strides)[3], std::int32_t rows) {
  // The driver's own function, asked for at run time, so that nothing links to the driver.
  static const auto encode = [] {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found;
    STAGGER_CUDA_TRY(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                                      cudaEnableDefault, &found));
    return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function);
  }();
  if (encode == nullptr) throw Error(ErrorKind::device, "the driver has no bulk tensor copies");
  const cuuint32_t box[] = {kPanelColumns, static_cast<cuuint32_t>(rows), 1, 1};
  const cuuint32_t steps[] = {1, 1, 1, 1};
  CUtensorMap map;
  const CUresult result =
      encode(&map, type, 4, data, sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
             CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
             CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) {
    throw Error(ErrorKind::device,
                "CUDA: no tensor map, error " + std::to_string(static_cast<int>(result)));
  }
  return map;
}

}  // namespace stagger::gpu::hopper
