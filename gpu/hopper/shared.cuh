#pragma once

// What the roles of a hopper CTA share: what the kernel is told, what a step is, the buffers in
// shared memory and the barriers that hand them on.
//
//   what            from → to            full                     empty
//   step            load → all           step                     (by the others' order)
//   K               load → compute       k: bytes                 k: a warp each
//   V               load → compute       v: bytes                 v: a warp each
//   Q + stats       load → compute       q: bytes                 q: a warp each
//   dO              load → compute       d_out: bytes             d_out: a warp each
//   dQ              compute → writer     dq: a warp each          dq_read: the writer
//   dK, dV          compute → memory                              k, staged: a warp each
//   a chain's turn  compute → load       dkv_turn: a warp each    (where parts are added in order)

#include "gpu/hopper/divisor.hpp"
#include "gpu/hopper/tile.cuh"

namespace stagger::gpu::hopper {

inline constexpr int kDqHalves = 2;  ///< of a step's dQ: a compute warpgroup's each
inline constexpr int kDqSlots = 2;   ///< writers: who takes turns needs a barrier of his own
static_assert(kDqSlots == kStages);  // a step's place in the ring of dS is its writer's too

/// Lanes that arrive for a warp: one, after a __syncwarp(). racecheck does not see that it is also
/// for the others; a build for it has them all arrive.
#ifdef STAGGER_RACECHECK
inline constexpr int kArrivingLanes = 32;
#else
inline constexpr int kArrivingLanes = 1;
#endif

/// Tensors are (batch, head, row, dim) with any strides.
struct Parameters {
  CUtensorMap q;  ///< by boxes of step_q x 64, d_out too
  CUtensorMap d_out;
  CUtensorMap k;  ///< by boxes of 128 x 64, v too
  CUtensorMap v;
  CUtensorMap dk;  ///< by boxes of 16 x 64, dv too; a part in the place of a head
  CUtensorMap dv;
  Divisor heads;                         ///< of a batch entry
  Divisor group;                         ///< heads that share K and V
  Divisor span;                          ///< heads of a part, which share chains
  const float* stats = nullptr;          ///< QueryStats by (head, Q tile, step)
  const SeenQueries* queries = nullptr;  ///< by (masked tile in ranges, step, key in the tile)
  const std::byte* bits = nullptr;       ///< SeenBits by (other masked tile, step)
  std::int32_t in_ranges = 0;            ///< masked tiles: places in MaskedTiles below this one
  float* dq_sums = nullptr;              ///< by (head, Q tile, step), in the order of dq_place
  float* partials = nullptr;    ///< by (slot, step), as dq_sums; nullptr: they are not kept
  std::int32_t log2_steps = 0;  ///< of the number of a task's steps
  float scale = 0;
  std::int32_t q_tiles = 0;   ///< of a head
  DropoutWords dropout = {};  ///< of a kernel that drops
  /// What a kernel that adds parts in order has in memory, laid out as dkv_place says: sums by
  /// (KV head, KV tile), where those of all parts are found only in a run with a witness; and by
  /// chain what is added, nullptr where it is not kept.
  DkvSums dkv_sums = {};
  DkvSums dkv_partials = {};
};

/// What a step is. One word: shared memory is slow to answer while products read it.
struct Marks {
  std::uint32_t step : 1;       ///< of its task
  std::uint32_t ends_lane : 1;  ///< of two that arrive on lane_certain, once they have turns
  std::uint32_t masked : 1;
  std::uint32_t begins_task : 1;
  std::uint32_t ends_task : 1;
  std::uint32_t begins_chain : 1;
  std::uint32_t ends_chain : 1;
  std::uint32_t is_last : 1;  ///< no step, the end of all
  std::uint32_t bits : 24;    ///< of a masked one: its place among those with SeenBits, and one; 0:
                              ///< it has SeenQueries
};

/// A slot, or a step of it, on its way through the CTA.
struct alignas(8) Step {
  std::int32_t index;  ///< of the slot: there are fewer than 2^31 (kMaxTasks)
  std::int32_t head;
  std::int32_t kv;
  std::int32_t tile;  ///< (head, Q tile)
  std::int32_t rank;
  Marks marks;
};

template <class T, int kHeadDim, int kStepQ>
struct SharedMemory {
  using Tiles = TileBuffers<T, kHeadDim, kStepQ>;
  /// More than load, compute and writers can be apart, which is five: a step's place is written
  /// again when all of them have gone past it.
  static constexpr int kSteps = 8;
  static constexpr int kKStages = Tiles::kKStages;
  static constexpr int kVStages = Tiles::kVStages;
  static constexpr int kComputeArrivals = kComputeThreads / 32 * kArrivingLanes;

  Tiles tiles;
  StepQueries<kStepQ> queries[kStages];
  Step steps[kSteps];
  Mbarrier step_full[kSteps];
  Mbarrier k_full[kKStages];
  Mbarrier k_empty[kKStages];
  Mbarrier v_full[kVStages];
  Mbarrier v_empty[kVStages];
  Mbarrier staged_read;  ///< dV, in the place of dS, is on its way to memory
  Mbarrier q_full[kStages];
  Mbarrier q_empty[kStages];
  Mbarrier d_out_full[kStages];
  Mbarrier d_out_empty[kStages];
  Mbarrier ds_full[kStages];
  Mbarrier ds_empty[kStages];
  Mbarrier dq_full[kDqSlots][kDqHalves];
  Mbarrier dq_read[kDqHalves];
  Mbarrier lane_certain;  ///< the last steps of a lane, one of each writer, have their turns
  std::int32_t stopped;   ///< by the writer: no more steps
  Mbarrier dkv_turn[2];   ///< where parts are added in order: a chain has its turn, or never will

  __device__ void init(bool in_order) {
    for (Mbarrier& barrier : step_full)
      barrier.init(1);
    for (int stage = 0; stage < kKStages; ++stage) {
      k_full[stage].init(1);
      k_empty[stage].init(kComputeArrivals);
    }
    for (int stage = 0; stage < kVStages; ++stage) {
      v_full[stage].init(1);
      v_empty[stage].init(kComputeArrivals);
    }
    staged_read.init(kComputeArrivals);
    for (int stage = 0; stage < kStages; ++stage) {
      q_full[stage].init(1);
      q_empty[stage].init(kComputeArrivals);
      d_out_full[stage].init(1);
      d_out_empty[stage].init(kComputeArrivals);
      ds_full[stage].init(kComputeArrivals);
      ds_empty[stage].init(kComputeArrivals);
    }
    for (int half = 0; half < kDqHalves; ++half) {
      for (int slot = 0; slot < kDqSlots; ++slot)
        dq_full[slot][half].init(kComputeArrivals / kDqHalves);
      dq_read[half].init(1);
    }
    lane_certain.init(kDqSlots);
    if (in_order) {
      for (Mbarrier& barrier : dkv_turn)
        barrier.init(kComputeArrivals);
    }
    stopped = 0;
    fence_mbarrier_init();
  }
};

}  // namespace stagger::gpu::hopper
