// A build without CUDA: the same symbols, and no device.

#include "core/error.hpp"
#include "gpu/overlap/overlap.hpp"

namespace stagger::gpu::overlap {

class OverlapRuns::State {};

std::string overlap_refusal() {
  return "this build has no CUDA";
}

GemmCta gemm_cta(Room) {
  throw Error(ErrorKind::device, "this build has no CUDA");
}

GemmCta bits_cta(const DropoutRule&) {
  throw Error(ErrorKind::device, "this build has no CUDA");
}

Residents bits_residents(const DropoutRule&) {
  throw Error(ErrorKind::device, "this build has no CUDA");
}

OverlapRuns::OverlapRuns(const OverlapProblem&) {
  throw Error(ErrorKind::device, "this build has no CUDA");
}
OverlapRuns::OverlapRuns(OverlapRuns&&) noexcept = default;
OverlapRuns& OverlapRuns::operator=(OverlapRuns&&) noexcept = default;
OverlapRuns::~OverlapRuns() = default;

WayTimes OverlapRuns::run(const Way&) {
  throw Error(ErrorKind::device, "this build has no CUDA");
}

WayCheck OverlapRuns::check(const Way&) {
  throw Error(ErrorKind::device, "this build has no CUDA");
}

}  // namespace stagger::gpu::overlap
