#pragma once

// The semaphore of a dQ tile in global memory, one integer: the rank whose turn it is. The rules
// are those of the PTX memory model; each function says which it serves. All of them are for one
// thread of a CTA. Where others add to the tile too, there is a CTA barrier after acquire and
// before release: the barrier makes what the other threads read and wrote part of that thread's
// order (causality is cumulative), so that no other thread needs a fence.

#include <cstdint>

namespace stagger::gpu::cuda {

/// Reads the clock that all SMs share, in ns.
__device__ inline std::int64_t global_time() {
  std::int64_t time;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
  return time;
}

/// Lets so many ns go by.
__device__ inline void spin(std::int64_t ns) {
  const std::int64_t begin = global_time();
  while (global_time() - begin < ns) {
  }
}

/// Reads the cycles of this SM's own clock.
__device__ inline std::int64_t sm_cycles() {
  std::int64_t cycles;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(cycles));
  return cycles;
}

/// Reads a lock by the acquire pattern: a load that observes a release makes everything before that
/// release visible to what follows this load. Scope .gpu, because the two are on different SMs; a
/// .cta load might leave stale lines of dQ in this SM's L1.
__device__ inline std::int32_t load_acquire(const std::int32_t* lock) {
  std::int32_t value;
  asm volatile("ld.acquire.gpu.global.b32 %0, [%1];" : "=r"(value) : "l"(lock) : "memory");
  return value;
}

/// Passes a turn on by the release pattern: everything before it, of the whole CTA through the
/// barrier, is performed before the new value can be seen. An addition rather than a store, so that
/// a table with two tasks of one rank leaves a count that shows it.
__device__ inline void release_next(std::int32_t* lock) {
  asm volatile("red.release.gpu.global.add.s32 [%0], 1;" ::"l"(lock) : "memory");
}

/// Adds 1 and returns what was there before: everything before it is released as by release_next(),
/// and everything before the additions that it finds is acquired. For those who add in any order,
/// of whom the last goes on.
__device__ inline std::int32_t count_one(std::int32_t* lock) {
  std::int32_t before;
  asm volatile("atom.acq_rel.gpu.global.add.s32 %0, [%1], 1;"
               : "=r"(before)
               : "l"(lock)
               : "memory");
  return before;
}

/// Reads the stop flag. No order is needed of it, but it must come from L2 and not from a stale
/// line: .relaxed.gpu is a strong access, a plain load is not.
__device__ inline bool is_stopped(const std::int32_t* stop) {
  std::int32_t value;
  asm volatile("ld.relaxed.gpu.global.b32 %0, [%1];" : "=r"(value) : "l"(stop) : "memory");
  return value != 0;
}

/// Waits until the lock shows `rank`. false if that takes longer than `timeout_ns`, or if another
/// CTA has waited for too long: then all leave, and no GPU hangs.
///
/// Equality, not at least: the turn of a rank that was passed never comes, as in the kernels that
/// this one stands for.
__device__ inline bool acquire(const std::int32_t* lock, std::int32_t rank, std::int32_t* stop,
                               std::int64_t timeout_ns) {
  const std::int64_t begin = global_time();
  while (true) {
    // The stop flag before the acquire, which would hold it back, and no look at it before both
    // are asked for: the two loads travel together.
    const bool stopped = is_stopped(stop);
    const std::int32_t turn = load_acquire(lock);
    if (stopped) return false;
    if (turn == rank) return true;
    if (global_time() - begin > timeout_ns) {
      atomicExch(stop, 1);
      return false;
    }
  }
}

}  // namespace stagger::gpu::cuda
