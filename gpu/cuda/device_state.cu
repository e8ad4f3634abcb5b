#include "gpu/cuda/device_state.hpp"
#include "gpu/cuda/try.cuh"

#include <cuda.h>

#include <cstring>

namespace stagger::gpu {

namespace {

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

/// Why no device was counted.
std::string absence(cudaError_t counted) {
  if (counted == cudaSuccess || counted == cudaErrorNoDevice) return "no CUDA device is visible";
  if (counted != cudaErrorInsufficientDriver)
    return std::string("CUDA: ") + cudaGetErrorString(counted);
  int driver = 0;  // and stays 0 where there is none
  static_cast<void>(cudaDriverGetVersion(&driver));
  if (driver == 0) return "there is no NVIDIA driver here";
  return "the NVIDIA driver is for CUDA " + version_text(driver) + ", too old for this build's " +
         version_text(CUDART_VERSION);
}

}  // namespace

DeviceState device_state() {
  DeviceState state;
  int count = 0;
  const cudaError_t counted = cudaGetDeviceCount(&count);
  if (counted != cudaSuccess || count == 0) {
    static_cast<void>(cudaGetLastError());
    state.why_not = absence(counted);
    return state;
  }
  int driver = 0;
  int device = 0;
  const auto attribute = [&device](cudaDeviceAttr which) {
    int value = 0;
    STAGGER_CUDA_TRY(cudaDeviceGetAttribute(&value, which, device));
    return value;
  };
  try {
    STAGGER_CUDA_TRY(cudaDriverGetVersion(&driver));
    STAGGER_CUDA_TRY(cudaGetDevice(&device));
    state.sms = attribute(cudaDevAttrMultiProcessorCount);
    state.major = attribute(cudaDevAttrComputeCapabilityMajor);
    state.minor = attribute(cudaDevAttrComputeCapabilityMinor);
    state.driver = driver;
    state.device = device;
  } catch (const Error& error) {
    state.why_not = error.what();
  }
  return state;
}

void enter_context() {
  // Asked for at run time, so that nothing links to the driver.
  static const auto current = [] {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found;
    STAGGER_CUDA_TRY(cudaGetDriverEntryPointByVersion("cuCtxGetCurrent", &function, 12000,
                                                      cudaEnableDefault, &found));
    return reinterpret_cast<decltype(&cuCtxGetCurrent)>(function);
  }();
  CUcontext context = nullptr;
  if (current != nullptr && current(&context) == CUDA_SUCCESS && context != nullptr) return;
  int device = 0;
  STAGGER_CUDA_TRY(cudaGetDevice(&device));
  STAGGER_CUDA_TRY(cudaSetDevice(device));  // the device stays; its primary context is entered
}

std::int32_t device_of(const void* address) {
  cudaPointerAttributes attributes{};
  if (cudaPointerGetAttributes(&attributes, address) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return -1;
  }
  return attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged
             ? attributes.device
             : -1;
}

bool is_captured(void* stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  STAGGER_CUDA_TRY(cudaStreamIsCapturing(static_cast<cudaStream_t>(stream), &status));
  return status != cudaStreamCaptureStatusNone;
}

void* new_mapped_memory(std::size_t bytes) {
  void* memory = nullptr;
  STAGGER_CUDA_TRY(cudaHostAlloc(&memory, bytes, cudaHostAllocPortable | cudaHostAllocMapped));
  std::memset(memory, 0, bytes);
  return memory;
}

void delete_mapped_memory(void* memory) noexcept {
  if (memory != nullptr) static_cast<void>(cudaFreeHost(memory));
}

}  // namespace stagger::gpu
