#include "core/error.hpp"
#include "gpu/cuda/lanes.cuh"
#include "gpu/cuda/replay.hpp"
#include "gpu/cuda/runner.cuh"

namespace stagger::gpu {
namespace cuda {
namespace {

/// How long each phase spins, in ns.
struct ReplayParameters {
  std::int64_t launch = 0;
  std::int64_t compute = 0;
  std::int64_t compute_partial = 0;
  std::int64_t reduce = 0;
  std::int64_t epilogue = 0;
  std::int64_t reduce_kv = 0;
};

/// A Work that spins.
struct ReplayWork {
  const ReplayParameters& ns;
  __device__ void begin_chain(const DeviceSlot&) { spin(ns.launch); }
  __device__ void compute(std::int64_t, const DeviceSlot& slot) {
    spin(slot.partial < 0 ? ns.compute : ns.compute_partial);
  }
  __device__ void reduce(std::int64_t, const DeviceSlot&) { spin(ns.reduce); }
  __device__ void end_chain(const DeviceSlot&) { spin(ns.epilogue); }
  __device__ void add_dkv(std::int32_t, const DeviceSlot&) { spin(ns.reduce_kv); }
};

__global__ void __launch_bounds__(kThreads)
    replay(DeviceTable table, DeviceRun run, ReplayParameters parameters) {
  ReplayWork work{parameters};
  LanePlayer(table, run, work).play();
}

}  // namespace
}  // namespace cuda

Backward replay_on_cuda(const Table& table, const ReplayTimes& times,
                        const BackwardOptions& options) {
  STAGGER_EXPECTS(is_complete(table));
  STAGGER_EXPECTS(times.timing.model == Model::chain);
  const Timing& timing = times.timing;
  const cuda::ReplayParameters parameters{
      .launch = timing.launch * times.tick_ns,
      .compute = timing.compute * times.tick_ns,
      .compute_partial = timing.compute_of(TileKind::partial) * times.tick_ns,
      .reduce = timing.reduce * times.tick_ns,
      .epilogue = timing.epilogue * times.tick_ns,
      .reduce_kv = timing.reduce_kv * times.tick_ns};
  return cuda::Runner(table, options)
      .play({cuda::replay, parameters, cuda::Runner::shared_bytes(0), cuda::kThreads});
}

}  // namespace stagger::gpu
