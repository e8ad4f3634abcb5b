#pragma once

// The hopper kernel: a CTA of three warpgroups plays lanes of a table.
//
//   load warp     takes lanes, follows their slots, asks for K and V of a chain, Q and dO of a step
//   writer warps  wait for a step's turn, add its dQ in L2, pass the turn on; the two take turns
//   compute       two warpgroups, which do the arithmetic
//
// Each is a file of its own; shared.cuh is what is between them.
//
// A task is one step, or two where a whole Q tile does not fit into registers; a step's dQ has a
// semaphore of its own, and all steps of a task the same rank. Each role runs ahead as far as the
// buffers between them let it: two or one K and V, two Q and dO, one dQ. So the model is
// `overlap`: the compute of a task beside the reduction of the one before.

#include "gpu/hopper/compute.cuh"
#include "gpu/hopper/loader.cuh"
#include "gpu/hopper/writer.cuh"

namespace stagger::gpu::hopper {

inline constexpr int kThreads = 3 * kWarpgroup;
inline constexpr std::size_t kMostShared = 227 << 10;  ///< that a CTA can have on sm_90

template <class T, int kHeadDim, int kStepQ, Extras kExtras>
__global__ void __launch_bounds__(kThreads, 1)
    backward(const __grid_constant__ cuda::DeviceTable table,
             const __grid_constant__ cuda::DeviceRun run,
             const __grid_constant__ Parameters parameters) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  using Shared = SharedMemory<T, kHeadDim, kStepQ>;
  static_assert(sizeof(Shared) <= kMostShared);
  extern __shared__ __align__(kSwizzleBytes) unsigned char bytes[];
  Shared& shared = *reinterpret_cast<Shared*>(bytes);
  if (threadIdx.x == 0) {
    shared.init(adds_in_order(kExtras));
    std::int32_t smid;
    asm("mov.u32 %0, %%smid;" : "=r"(smid));
    if (run.smids != nullptr) run.smids[blockIdx.x] = smid;
  }
  __syncthreads();
  // Registers go to those who sum in them, at most 3 * 168 in all.
  constexpr bool kNeedsAll = kHeadDim == 128 && kStepQ == 80;
  constexpr int kFew = kNeedsAll ? 24 : 40;
  constexpr int kMany = kNeedsAll ? 240 : 232;
  const auto warpgroup =
      __shfl_sync(0xffffffff, static_cast<int>(threadIdx.x) / kWarpgroup, 0);  // uniform, it says
  if (warpgroup == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kFew));
    if (threadIdx.x == 0)
      Loader<T, kHeadDim, kStepQ, kExtras>(table, run, parameters, shared).play();
    // A delayed release is the next task's: one writer must have both.
    const int writers = run.delayed_release ? 1 : kDqSlots;
    const int writer = static_cast<int>(threadIdx.x) / 32 - 1;
    if (threadIdx.x % 32 == 0 && writer >= 0 && writer < writers) {
      Writer<T, kHeadDim, kStepQ>(table, run, parameters, shared).play(writer, writers);
    }
    return;
  }
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kMany));
  Compute<T, kHeadDim, kStepQ, kExtras>(table, run, parameters, shared).play();
#endif
}

/// Returns the kernel of one of kShapes and a format of 16 bits.
template <Extras kExtras>
[[nodiscard]] const void* main_kernel(const Shape& shape, Dtype dtype);

}  // namespace stagger::gpu::hopper
