// A build without CUDA: the same symbols, and no device.

#include "core/error.hpp"
#include "gpu/cuda/copy_rate.hpp"
#include "gpu/cuda/device_state.hpp"
#include "gpu/cuda/executor.hpp"
#include "gpu/cuda/load_latency.hpp"
#include "gpu/cuda/program_executor.hpp"
#include "gpu/cuda/reference.hpp"
#include "gpu/cuda/replay.hpp"

#include <utility>

namespace stagger::gpu {

DeviceState device_state() {
  DeviceState state;
  state.why_not = "this build has no CUDA";
  return state;
}

void enter_context() {}

std::int32_t device_of(const void*) {
  return -1;
}

bool is_captured(void*) {
  return false;
}

void* new_mapped_memory(std::size_t) {
  throw Error(ErrorKind::device, "this build has no CUDA");
}

void delete_mapped_memory(void*) noexcept {}

bool has_cuda() {
  return false;
}

std::optional<CudaDevice> cuda_device() {
  return std::nullopt;
}

Backward backward_on_cuda(const Table&, const Attention&, const BackwardOptions&) {
  throw Error(ErrorKind::device, "this build has no CUDA");
}

ProgramRun program_on_cuda(const Program&, const Attention&, const ProgramOptions&) {
  throw Error(ErrorKind::device, "this build has no CUDA");
}

std::int64_t copy_bytes_per_ns_on_cuda() {
  throw Error(ErrorKind::device, "this build has no CUDA");
}

LoadLatency load_latency_on_cuda() {
  throw Error(ErrorKind::device, "this build has no CUDA");
}

Backward replay_on_cuda(const Table&, const ReplayTimes&, const BackwardOptions&) {
  throw Error(ErrorKind::device, "this build has no CUDA");
}

Attention make_attention_on_cuda(const Problem&, const AttentionShape&, Inputs inputs,
                                 std::optional<Dropout> dropout) {
  // As a build with CUDA takes them.
  const Inputs taken_inputs = std::move(inputs);
  const std::optional<Dropout> taken_dropout = std::move(dropout);
  throw Error(ErrorKind::device, "this build has no CUDA");
}

ReferenceGradients reference_gradients_on_cuda(const Attention&) {
  throw Error(ErrorKind::device, "this build has no CUDA");
}

}  // namespace stagger::gpu
