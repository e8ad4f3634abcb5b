#pragma once

// A cluster: CTAs that run together and reach each other's shared memory. A bulk copy of one can
// bring a box to all of them, at the same place in each, and arrives there on the barrier at the
// same place.

#include "gpu/hopper/bulk_copy.cuh"

#include <cstdint>

namespace stagger::gpu::overlap {

/// This CTA's number in its cluster.
__device__ inline std::uint32_t rank_in_cluster() {
  std::uint32_t rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

/// Waits for all threads of the cluster. A CTA that ends takes its shared memory along: none may
/// while others can still arrive on its barriers.
__device__ inline void sync_cluster() {
  asm volatile(
      "barrier.cluster.arrive.release;\n"
      "barrier.cluster.wait.acquire;" ::
          : "memory");
}

/// Arrives on the barrier at the same place in another CTA of the cluster, or in this one. It
/// releases nothing beyond this CTA: for one who has read what others may now overwrite. (Released
/// at cluster scope it begins with MEMBAR.ALL.GPU, a quarter of a GEMM's time.)
__device__ inline void arrive_at(hopper::Mbarrier& barrier, std::uint32_t cta) {
  asm volatile(
      "{\n"
      ".reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];\n"
      "}" ::"r"(hopper::shared_address(&barrier)),
      "r"(cta)
      : "memory");
}

/// Loads one box into the shared memory of all CTAs whose bit is set in `ctas`.
__device__ inline void load_box_for(void* to, const CUtensorMap* map, std::int32_t dim,
                                    std::int32_t row, hopper::Mbarrier& barrier,
                                    std::uint16_t ctas) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%2, %3, %4, %4}], [%5], %6;" ::"r"(
          hopper::shared_address(to)),
      "l"(map), "r"(dim), "r"(row), "r"(0), "r"(hopper::shared_address(&barrier)), "h"(ctas)
      : "memory");
}

}  // namespace stagger::gpu::overlap
