#pragma once

// Where the parts of dK and dV are added in the order of their ranks: what a compute warp does at a
// chain's end. Each of the eight has 16 of the KV tile's keys and a semaphore of its own for them,
// so that no warp waits for another of its CTA:
//
//   rank 0         stores its sums                 in fp32, as dkv_place has them, in L2
//   those between  add theirs
//   the last       adds theirs to its own, in registers, and so has the tile's dK and dV:
//                  it scales, rounds and writes them
//
// No zeros are needed to begin with, and no pass comes after. tests/gpu/hand_over.py looks for the
// rules: what one lane acquires is all lanes' after order_warp(), and what all have done is
// released by one lane after another.

#include "gpu/cuda/lanes.cuh"
#include "gpu/hopper/shared.cuh"

namespace stagger::gpu::hopper {

__device__ inline void store_quad(float4* to, const float4& quad) {
  asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(quad.x), "f"(quad.y),
               "f"(quad.z), "f"(quad.w)
               : "memory");
}

/// Adds four elements, each atomically, without their new values.
__device__ inline void add_quad(float4* to, const float4& quad) {
  asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(quad.x),
               "f"(quad.y), "f"(quad.z), "f"(quad.w)
               : "memory");
}

/// Loads four elements from L2, where they were added.
__device__ inline float4 load_quad(const float4* from) {
  float4 quad;
  asm volatile("ld.relaxed.gpu.global.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(quad.x), "=f"(quad.y), "=f"(quad.z), "=f"(quad.w)
               : "l"(from)
               : "memory");
  return quad;
}

/// Orders what the lanes of a warp did before among them and with what they do after. A
/// __syncwarp(), spelled so that it is told from those that hold other things together.
__device__ inline void order_warp() {
  asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
}

/// A compute warp at the end of a chain, which `step` is the last of.
template <class Tile, class Shared>
class PartAdder {
 public:
  __device__ PartAdder(const cuda::DeviceTable& table, const cuda::DeviceRun& run,
                       const Parameters& all, Shared& shared, const Step& step)
      : table_(table),
        run_(run),
        all_(all),
        shared_(shared),
        part_(all.span.quotient(step.head)),
        chain_(std::int64_t{part_} * table.kv_tiles + step.kv),
        semaphore_((std::int64_t{all.group.quotient(step.head)} * table.kv_tiles + step.kv) *
                       kDkvWarps +
                   static_cast<int>(threadIdx.x) / 32 - kWarpgroup / 32) {}

  /// Adds the warp's sums to those of its KV tile when the chain has the turn; arrives on `turn`
  /// when it has, or never will. Returns whether it was the last to add: the tile's sums are in its
  /// registers then.
  __device__ bool add(Tile& tile, Mbarrier& turn) {
    const DkvSums sums = all_.dkv_sums.of_warp(semaphore_, Tile::kDim);
    // What comes to its chain's end when the run has stopped waited for something else.
    if (is_witnessed() && !cuda::is_stopped(run_.stop)) stamp(&ChainTimes::ready);
    if (run_.mode == Mode::atomic) {
      arrive(turn);
      return add_in_any_order(tile, sums);
    }
    const std::int32_t rank = table_.dkv_ranks[chain_];
    const bool has_turn = take_turn(rank);
    arrive(turn);
    if (!has_turn) return false;
    stamp(&ChainTimes::turn);
    keep_partials(tile);
    const bool is_last = rank + 1 == table_.parts;
    if (is_last) {
      add_to_own(tile, sums);
    } else if (rank == 0) {
      store_own(tile, sums);
    } else {
      add_own(tile, sums);
    }
    order_warp();  // what all lanes have done is before the release
    if (leads_warp()) {
      const std::int64_t end = is_witnessed() ? cuda::global_time() : 0;
      if (is_witnessed()) witness(atomicAdd(run_.dkv_counts + semaphore_, 1));
      cuda::release_next(run_.dkv_locks + semaphore_);
      if (leads()) keep(&ChainTimes::end, end);
    }
    return is_last;
  }

 private:
  /// false if the run has stopped.
  __device__ bool take_turn(std::int32_t rank) {
    std::int32_t has_turn = 1;
    if (leads_warp()) {
      has_turn = cuda::acquire(run_.dkv_locks + semaphore_, rank, run_.stop, run_.timeout_ns);
      if (has_turn == 0) shared_.stopped = 1;
    }
    order_warp();  // what one has acquired is all lanes'; a shuffle orders nothing
    return of_lane_0(has_turn) != 0;
  }

  __device__ static std::int32_t of_lane_0(std::int32_t value) {
    return __shfl_sync(0xffffffff, value, 0);
  }

  __device__ void keep_partials(Tile& tile) const {
    if (all_.dkv_partials.dk == nullptr) return;
    const std::int64_t number = chain_ * kDkvWarps + semaphore_ % kDkvWarps;
    store_own(tile, all_.dkv_partials.of_warp(number, Tile::kDim));
  }

  __device__ static void store_own(Tile& tile, const DkvSums& sums) {
    tile.each_quad(sums, [](const float4& quad, float4* place) {
      store_quad(place, quad);
      return quad;
    });
  }
  __device__ static void add_own(Tile& tile, const DkvSums& sums) {
    tile.each_quad(sums, [](const float4& quad, float4* place) {
      add_quad(place, quad);
      return quad;
    });
  }

  /// Takes the sum of all parts into registers, and leaves it if there is somebody to look at it.
  __device__ void add_to_own(Tile& tile, const DkvSums& sums) const {
    tile.add_loaded(sums, [](const float4* place) { return load_quad(place); });
    if (is_witnessed()) store_own(tile, sums);
  }

  /// Adds to sums that begin with 0; who has counted the others is the last.
  __device__ bool add_in_any_order(Tile& tile, const DkvSums& sums) {
    stamp(&ChainTimes::turn);
    add_own(tile, sums);
    order_warp();
    std::int32_t before = 0;
    if (leads_warp()) {
      before = cuda::count_one(run_.dkv_locks + semaphore_);
      if (is_witnessed()) witness(before);
    }
    order_warp();
    const bool is_last = of_lane_0(before) + 1 == table_.parts;
    if (is_last) {
      tile.each_quad(sums, [](const float4&, float4* place) { return load_quad(place); });
    }
    stamp(&ChainTimes::end);
    return is_last;
  }

  /// Whether the run keeps who was the n-th to add.
  [[nodiscard]] __device__ bool is_witnessed() const { return run_.dkv_counts != nullptr; }
  __device__ void witness(std::int32_t n) {
    run_.dkv_witness[semaphore_ * table_.parts + n] = part_;
  }
  __device__ void stamp(std::int64_t ChainTimes::*time) {
    if (leads() && is_witnessed()) keep(time, cuda::global_time());
  }
  __device__ void keep(std::int64_t ChainTimes::*time, std::int64_t ns) {
    if (is_witnessed()) run_.chain_times[chain_].*time = ns;
  }

  __device__ static void arrive(Mbarrier& barrier) {
    if (threadIdx.x % 32 < kArrivingLanes) barrier.arrive();
  }
  /// Whether this is the lane that waits and releases, and the thread that stamps.
  __device__ static bool leads_warp() { return threadIdx.x % 32 == 0; }
  __device__ static bool leads() { return threadIdx.x == kWarpgroup; }

  const cuda::DeviceTable& table_;
  const cuda::DeviceRun& run_;
  const Parameters& all_;
  Shared& shared_;
  std::int32_t part_;
  std::int64_t chain_;      ///< as Problem::chain_place
  std::int64_t semaphore_;  ///< (KV head, KV tile, warp)
};

}  // namespace stagger::gpu::hopper
