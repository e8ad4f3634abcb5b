#include "core/error.hpp"
#include "gpu/cuda/lanes.cuh"
#include "gpu/cuda/replay.hpp"
#include "gpu/cuda/runner.cuh"

namespace stagger::gpu {
namespace {

/// ns.
struct ReplayParameters {
  std::int64_t launch = 0;
  std::int64_t compute = 0;
  std::int64_t compute_partial = 0;
  std::int64_t reduce = 0;
  std::int64_t epilogue = 0;
};

/// A Work that spins.
struct ReplayWork {
  const ReplayParameters& ns;
  __device__ void begin_chain(const CudaSlot&) { spin(ns.launch); }
  __device__ void compute(std::int64_t, const CudaSlot& slot) {
    spin(slot.partial < 0 ? ns.compute : ns.compute_partial);
  }
  __device__ void reduce(std::int64_t, const CudaSlot&) { spin(ns.reduce); }
  __device__ void end_chain(const CudaSlot&) { spin(ns.epilogue); }
};

__global__ void __launch_bounds__(kCudaThreads)
    replay(CudaTable table, CudaRun run, ReplayParameters parameters) {
  ReplayWork work{parameters};
  LanePlayer(table, run, work).play();
}

}  // namespace

Backward replay_on_cuda(const Table& table, const ReplayTimes& times,
                        const BackwardOptions& options) {
  STAGGER_EXPECTS(is_complete(table));
  STAGGER_EXPECTS(times.timing.model == Model::chain);
  const Timing& timing = times.timing;
  const ReplayParameters parameters{
      .launch = timing.launch * times.tick_ns,
      .compute = timing.compute * times.tick_ns,
      .compute_partial = timing.compute_of(TileKind::partial) * times.tick_ns,
      .reduce = timing.reduce * times.tick_ns,
      .epilogue = timing.epilogue * times.tick_ns};
  return CudaRunner(table, options)
      .play({replay, parameters, CudaRunner::shared_bytes(0), kCudaThreads});
}

}  // namespace stagger::gpu
