// A build without CUDA: the same symbols, and no device.

#include "core/error.hpp"
#include "gpu/hopper/call.hpp"
#include "gpu/hopper/hopper.hpp"

namespace stagger::gpu {
namespace hopper {

std::string device_refusal() {
  return "this build has no CUDA";
}

void upload(const Plan&, void*, void*) {
  throw Error(ErrorKind::device, "this build has no CUDA");
}

void enqueue(const Plan&, const Call&) {
  throw Error(ErrorKind::device, "this build has no CUDA");
}

}  // namespace hopper

std::string hopper_refusal(const Problem&, const AttentionShape&, Dtype) {
  return "this build has no CUDA";
}

Backward backward_on_hopper(const Table&, const Attention&, const BackwardOptions&) {
  throw Error(ErrorKind::device, "this build has no CUDA");
}

UntimedRuns untimed_runs_on_hopper(const Table&, const Attention&, const BackwardOptions&, int,
                                   int) {
  throw Error(ErrorKind::device, "this build has no CUDA");
}

}  // namespace stagger::gpu
