// A build without CUDA: the same symbols, and no device.

#include "core/error.hpp"
#include "gpu/cuda_executor.hpp"
#include "gpu/hopper.hpp"
#include "gpu/replay.hpp"

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

std::string hopper_refusal(const Problem&, const AttentionShape&, Dtype) {
  return "this build has no CUDA";
}

Backward backward_on_hopper(const Table&, const Attention&, const BackwardOptions&) {
  throw Error(ErrorKind::device, "this build has no CUDA");
}

std::vector<std::int64_t> time_hopper(const Table&, const Attention&, const BackwardOptions&, int,
                                      int) {
  throw Error(ErrorKind::device, "this build has no CUDA");
}

}  // namespace stagger::gpu
