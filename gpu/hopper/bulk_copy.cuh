#pragma once

// Bulk copies: one thread asks, the copy engine moves a tile between global and shared memory. The
// engine is the "async proxy": its accesses and ordinary ones ("generic proxy") to the same bytes
// are ordered by a proxy fence alone, even within a thread.

#include "gpu/hopper/mbarrier.cuh"

#include <cuda.h>

#include <cstdint>

namespace stagger::gpu::hopper {

/// Orders ordinary writes to shared memory before a bulk copy or product that reads the same bytes,
/// or a bulk copy that overwrites them. To be executed by the thread that wrote, before the barrier
/// that tells the one who asks for it. Of shared memory alone: the fence for all memory waits for
/// the thread's accesses to global memory too, hundreds of cycles, for nothing.
__device__ inline void fence_async_shared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/// Extends an acquire to the bulk accesses to global memory that the same thread asks for.
__device__ inline void fence_async_global() {
  asm volatile("fence.proxy.async.global;" ::: "memory");
}

/// Where a box of a tensor (dim, row, head, batch) begins, but for its dim.
struct BoxPlace {
  std::int32_t row;
  std::int32_t head;
  std::int32_t batch;
};

/// Loads one box of a tensor into shared memory, swizzled as the map says; rows beyond the tensor
/// are 0 and count as bytes too.
__device__ inline void load_box(void* to, const CUtensorMap* map, std::int32_t dim, BoxPlace place,
                                Mbarrier& barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3, %4, %5}], [%6];" ::"r"(shared_address(to)),
      "l"(map), "r"(dim), "r"(place.row), "r"(place.head), "r"(place.batch),
      "r"(shared_address(&barrier))
      : "memory");
}

/// Stores one box of a tensor from shared memory; rows beyond the tensor are not written.
__device__ inline void store_box(const CUtensorMap* map, const void* from, std::int32_t dim,
                                 BoxPlace place) {
  asm volatile(
      "cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3, %4}], [%5];" ::
          "l"(map),
      "r"(dim), "r"(place.row), "r"(place.head), "r"(place.batch), "r"(shared_address(from))
      : "memory");
}

/// Loads contiguous bytes into shared memory: a multiple of 16, as the addresses are.
__device__ inline void load_bytes(void* to, const void* from, std::uint32_t bytes,
                                  Mbarrier& barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(shared_address(to)),
      "l"(from), "r"(bytes), "r"(shared_address(&barrier))
      : "memory");
}

/// Stores contiguous bytes from shared memory, as load_bytes() loads them.
__device__ inline void store_bytes(void* to, const void* from, std::uint32_t bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to),
               "r"(shared_address(from)), "r"(bytes)
               : "memory");
}

/// Adds from[i] to to[i] for every fp32 element; each addition is atomic, and its place in the
/// order is settled when it is performed at L2, not when it is asked for.
__device__ inline void add_floats(float* to, const float* from, std::uint32_t bytes) {
  asm volatile(
      "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(to),
      "r"(shared_address(from)), "r"(bytes)
      : "memory");
}

__device__ inline void commit_copies() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

/// Waits until all of this thread's stores and additions but the last `kPending` groups have read
/// shared memory, which may then be overwritten. It says nothing of what they wrote.
template <int kPending>
__device__ inline void wait_until_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}

/// Waits until this thread's stores and additions are performed, so that a release after it
/// releases them. For the thread that asked for them alone: groups are a thread's own.
__device__ inline void wait_until_performed() {
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

}  // namespace stagger::gpu::hopper
