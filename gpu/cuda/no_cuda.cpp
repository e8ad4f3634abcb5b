// A build without CUDA: the same symbols, and no device.

#include "core/error.hpp"
#include "gpu/cuda/executor.hpp"
#include "gpu/cuda/reference.hpp"
#include "gpu/cuda/replay.hpp"

#include <utility>

namespace stagger::gpu {

bool has_cuda() {
  return false;
}

std::optional<CudaDevice> cuda_device() {
  return std::nullopt;
}

Backward backward_on_cuda(const Table&, const Attention&, const BackwardOptions&) {
  throw Error(ErrorKind::device, "this build has no CUDA");
}

Backward replay_on_cuda(const Table&, const ReplayTimes&, const BackwardOptions&) {
  throw Error(ErrorKind::device, "this build has no CUDA");
}

Attention make_attention_on_cuda(const Problem&, const AttentionShape&, Inputs inputs) {
  const Inputs taken = std::move(inputs);  // as a build with CUDA takes them
  throw Error(ErrorKind::device, "this build has no CUDA");
}

ReferenceGradients reference_gradients_on_cuda(const Attention&) {
  throw Error(ErrorKind::device, "this build has no CUDA");
}

}  // namespace stagger::gpu
