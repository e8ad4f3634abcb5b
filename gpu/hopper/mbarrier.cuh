#pragma once

// An mbarrier in shared memory: a barrier on which also bulk copies arrive, by the bytes they have
// brought. It has phases; a wait names the parity of the phase whose end it waits for, and phases
// begin with 0.

#include <cstdint>

namespace stagger::gpu::hopper {

/// Converts a generic pointer to shared memory to what PTX's .shared instructions take.
__device__ inline std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

struct alignas(8) Mbarrier {
  std::uint64_t state;

  __device__ void init(std::uint32_t arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(this)),
                 "r"(arrivals)
                 : "memory");
  }

  /// Arrives with release at CTA scope: what this thread wrote is there for whoever has waited.
  __device__ void arrive() {
    asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(shared_address(this))
                 : "memory");
  }

  /// Arrives, and lets the phase end no sooner than `bytes` more have come by bulk copies.
  __device__ void arrive_expecting(std::uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;" ::"r"(
                     shared_address(this)),
                 "r"(bytes)
                 : "memory");
  }

  /// Waits with acquire at CTA scope. It has no deadline, nor a way out: those who wait for others
  /// of their CTA wait for the dQ writer in the end, and the writer has one. (A trap here costs the
  /// compute warps their registers: ptxas then takes no notice of setmaxnreg.)
  __device__ void wait(std::uint32_t parity) {
    while (!has_ended(parity)) {
    }
  }

  /// Says whether that phase has ended, with acquire at CTA scope; waits for it a moment.
  __device__ bool has_ended(std::uint32_t parity) {
    std::uint32_t ended;
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p;\n"
        "}\n"
        : "=r"(ended)
        : "r"(shared_address(this)), "r"(parity)
        : "memory");
    return ended != 0;
  }
};

/// Makes initialised barriers visible to the async proxy, whose copies arrive on them.
__device__ inline void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/// A ring of buffers guarded by barriers, by the number of a use: which buffer it has, and the
/// parity of the phase of that buffer's barriers.
template <std::uint32_t kBuffers>
__device__ inline std::uint32_t buffer_of(std::uint32_t use) {
  static_assert((kBuffers & (kBuffers - 1)) == 0);  // so that numbers may wrap round
  return use % kBuffers;
}
template <std::uint32_t kBuffers>
__device__ inline std::uint32_t parity_of(std::uint32_t use) {
  static_assert((kBuffers & (kBuffers - 1)) == 0);
  return use / kBuffers % 2;
}

}  // namespace stagger::gpu::hopper
