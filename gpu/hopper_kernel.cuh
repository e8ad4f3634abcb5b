#pragma once

// The hopper kernel: a CTA of three warpgroups plays lanes of a table.
//
//   load warp     takes lanes, follows their slots, asks for K and V of a chain, Q and dO of a task
//   writer warps  wait for a task's turn, add its dQ in L2, pass the turn on; the two take turns
//   compute       two warpgroups (hopper_tile.cuh)
//
// Each runs ahead as far as the buffers between them let it: two Q and two dO tiles, one dQ tile.
// So the model is `overlap`: the compute of a task beside the reduction of the one before.
//
//   what            from → to            full                     empty
//   task            load → all           task                     (by the others' order)
//   K, V            load → compute       k, v: bytes              kv: a warp each
//   Q + stats       load → compute       q: bytes                 q: a warp each
//   dO              load → compute       d_out: bytes             d_out: a warp each
//   dQ              compute → writer     dq: a warp each          dq_read: the writer

#include "gpu/cuda_lanes.cuh"
#include "gpu/hopper_tile.cuh"

namespace stagger::gpu {

inline constexpr int kHopperThreads = 3 * kWarpgroup;
inline constexpr int kDqHalves = 2;  ///< of a dQ tile: a compute warpgroup's each
inline constexpr int kDqSlots = 2;   ///< writers: who takes turns needs a barrier of his own

/// Tensors are laid out as AttentionShape says.
struct HopperParameters {
  CUtensorMap q;  ///< by boxes of tile_q x 64, d_out too
  CUtensorMap d_out;
  CUtensorMap k;  ///< by boxes of 128 x 64, v too
  CUtensorMap v;
  const float* stats = nullptr;      ///< QueryStats by (head, Q tile)
  const HopperKeys* keys = nullptr;  ///< (partial tile, query in the tile)
  float* dq_sums = nullptr;          ///< by (head, Q tile), in the order of dq_place
  void* dk = nullptr;
  void* dv = nullptr;
  float* partials = nullptr;  ///< by slot, as dq_sums; nullptr: they are not kept
  std::int64_t seq_kv = 0;
  float scale = 0;
};

/// A slot on its way through the CTA.
struct HopperTask {
  CudaSlot slot;
  std::int32_t lane = 0;
  std::int32_t lane_arrivals = 0;  ///< on lane_certain, once it has its turn
  bool is_last = false;            ///< no task, the end of all
  std::int64_t index = 0;
};

template <class T, int kHeadDim, int kTileQ>
struct HopperShared {
  /// More than load, compute and writer can be apart: a task's place is written again when all of
  /// them have gone past it.
  static constexpr int kTasks = 8;
  static constexpr int kComputeWarps = kComputeThreads / 32;

  HopperTiles<T, kHeadDim, kTileQ> tiles;
  HopperTask tasks[kTasks];
  Mbarrier task_full[kTasks];
  Mbarrier k_full;
  Mbarrier v_full;
  Mbarrier kv_empty;
  Mbarrier q_full[kStages];
  Mbarrier q_empty[kStages];
  Mbarrier d_out_full[kStages];
  Mbarrier d_out_empty[kStages];
  Mbarrier ds_full[kStages];
  Mbarrier ds_empty[kStages];
  Mbarrier dq_full[kDqSlots][kDqHalves];
  Mbarrier dq_read[kDqHalves];
  Mbarrier lane_certain;  ///< the last tasks of a lane, one of each writer, have their turns
  std::int32_t stopped;   ///< by the writer: no more tasks

  __device__ void init() {
    for (Mbarrier& barrier : task_full)
      barrier.init(1);
    k_full.init(1);
    v_full.init(1);
    lane_certain.init(kDqSlots);
    for (int half = 0; half < kDqHalves; ++half) {
      for (int slot = 0; slot < kDqSlots; ++slot)
        dq_full[slot][half].init(kComputeWarps / kDqHalves);
      dq_read[half].init(1);
    }
    kv_empty.init(kComputeWarps);
    for (int stage = 0; stage < kStages; ++stage) {
      q_full[stage].init(1);
      q_empty[stage].init(kComputeWarps);
      d_out_full[stage].init(1);
      d_out_empty[stage].init(kComputeWarps);
      ds_full[stage].init(kComputeWarps);
      ds_empty[stage].init(kComputeWarps);
    }
    stopped = 0;
    fence_mbarrier_init();
  }
};

/// One thread.
template <class T, int kHeadDim, int kTileQ>
class HopperLoader {
 public:
  using Shared = HopperShared<T, kHeadDim, kTileQ>;

  __device__ HopperLoader(const CudaTable& table, const CudaRun& run, const HopperParameters& all,
                          Shared& shared)
      : table_(table), run_(run), all_(all), shared_(shared) {}

  __device__ void play() {
    auto lane = static_cast<std::int32_t>(blockIdx.x);
    while (lane < table_.lanes && !is_stopped()) {
      run_.lane_sms[lane].value = static_cast<std::int32_t>(blockIdx.x);
      play_lane(lane);
      lane = static_cast<std::int32_t>(gridDim.x) + atomicAdd(run_.lanes_taken, 1);
    }
    for (int writer = 0; writer < kDqSlots; ++writer)  // each looks at every other task only
      publish({.is_last = true});
  }

 private:
  static constexpr std::uint32_t kKvBytes = kHopperTileKv * kHeadDim * sizeof(T);
  static constexpr std::uint32_t kQBytes = kTileQ * kHeadDim * sizeof(T);

  __device__ bool is_stopped() const {
    return *static_cast<const volatile std::int32_t*>(&shared_.stopped) != 0;
  }

  __device__ void play_lane(std::int32_t lane) {
    const std::int64_t begin = table_.lane_begin[lane];
    const std::int64_t end = table_.lane_begin[lane + 1];
    if (begin == end) return;
    CudaSlot next = table_.slots[begin];
    for (std::int64_t index = begin; index < end && !is_stopped(); ++index) {
      const CudaSlot slot = next;
      if (index + 1 < end) next = table_.slots[index + 1];  // long before it is needed
      delay(run_, index, 0);
      leave_anchor(run_, index);  // here, where nobody waits for it
      publish({.slot = slot,
               .lane = lane,
               .lane_arrivals = index + kDqSlots < end               ? 0
                                : index == begin && index + 1 == end ? 2
                                                                     : 1,
               .index = index});
      load(slot);
    }
    // A lane that is taken is held up by this one: not before it is sure to end, or the lanes that
    // it waits for might be the ones it keeps from others.
    if (is_stopped()) return;
    shared_.lane_certain.wait(lane_parity_);
    lane_parity_ ^= 1;
  }

  __device__ void publish(const HopperTask& task) {
    // Room is certain: this warp has come here because compute has left the Q tile of two tasks
    // ago, and compute had to hand over the dQ of the task before that.
    shared_.tasks[task_.stage] = task;
    shared_.task_full[task_.stage].arrive();
    task_.advance();
  }

  __device__ void load(const CudaSlot& slot) {
    if (slot.begins_chain) {
      shared_.kv_empty.wait(chain_parity_ ^ 1);
      load_tile(shared_.tiles.k, &all_.k, slot.kv * kHopperTileKv, slot.head, kHopperTileKv,
                kKvBytes, shared_.k_full);
    }
    shared_.q_empty[place_.stage].wait(place_.parity ^ 1);
    load_q(slot);
    if (slot.begins_chain) {
      load_tile(shared_.tiles.v, &all_.v, slot.kv * kHopperTileKv, slot.head, kHopperTileKv,
                kKvBytes, shared_.v_full);
      chain_parity_ ^= 1;
    }
    shared_.d_out_empty[place_.stage].wait(place_.parity ^ 1);
    load_tile(shared_.tiles.d_out[place_.stage], &all_.d_out, slot.q * kTileQ, slot.head, kTileQ,
              kQBytes, shared_.d_out_full[place_.stage]);
    place_.advance();
  }

  __device__ void load_q(const CudaSlot& slot) {
    using Stats = QueryStats<kTileQ>;
    constexpr std::uint32_t kKeysBytes = kTileQ * sizeof(HopperKeys);
    Mbarrier& barrier = shared_.q_full[place_.stage];
    const bool partial = slot.partial >= 0;
    load_tile(shared_.tiles.q[place_.stage], &all_.q, slot.q * kTileQ, slot.head, kTileQ,
              kQBytes + sizeof(Stats) + (partial ? kKeysBytes : 0), barrier);
    const std::int64_t tile = std::int64_t{slot.head} * table_.q_tiles + slot.q;
    load_bytes(&shared_.tiles.stats[place_.stage],
               reinterpret_cast<const Stats*>(all_.stats) + tile, sizeof(Stats), barrier);
    if (partial) {
      load_bytes(shared_.tiles.keys[place_.stage], all_.keys + std::int64_t{slot.partial} * kTileQ,
                 kKeysBytes, barrier);
    }
  }

  /// All panels of a tile; `bytes` is all that the barrier has to wait for.
  __device__ static void load_tile(T* to, const CUtensorMap* map, std::int32_t row,
                                   std::int32_t head, int rows, std::uint32_t bytes,
                                   Mbarrier& barrier) {
    barrier.arrive_expecting(bytes);
    for (int panel = 0; panel < kHeadDim / kPanelColumns; ++panel) {
      load_box(to + panel * rows * kPanelColumns, map, panel * kPanelColumns, row, head, barrier);
    }
  }

  const CudaTable& table_;
  const CudaRun& run_;
  const HopperParameters& all_;
  Shared& shared_;
  RingPlace<Shared::kTasks> task_;
  RingPlace<kStages> place_;
  std::uint32_t chain_parity_ = 0;
  std::uint32_t lane_parity_ = 0;
};

/// One thread: bulk copies complete for the thread that asked for them.
template <class T, int kHeadDim, int kTileQ>
class HopperWriter {
 public:
  using Shared = HopperShared<T, kHeadDim, kTileQ>;

  __device__ HopperWriter(const CudaTable& table, const CudaRun& run, const HopperParameters& all,
                          Shared& shared)
      : table_(table), run_(run), all_(all), shared_(shared) {}

  /// Every `step`-th task from the CTA's `first`. Two writers take turns: while one waits until its
  /// additions are performed, the other has the next task's turn and dQ.
  __device__ void play(int first, int step) {
    for (int task = first;; task += step) {
      const int place = task % Shared::kTasks;
      shared_.task_full[place].wait(task / Shared::kTasks % 2);
      if (shared_.tasks[place].is_last) return;
      const int slot = task % kDqSlots;
      const std::uint32_t parity = task / kDqSlots % 2;
      const HopperTask& of = shared_.tasks[place];
      const bool has_turn = take_turn(of);
      for (int arrival = 0; arrival < of.lane_arrivals; ++arrival)
        shared_.lane_certain.arrive();
      if (!has_turn || !write(of, slot, parity)) drop(slot, parity);
    }
  }

 private:
  static constexpr int kHalf = kTileQ * kHeadDim / kDqHalves;
  static constexpr std::uint32_t kBytes = kHalf * sizeof(float);

  [[nodiscard]] __device__ std::int64_t tile_of(const HopperTask& task) const {
    return std::int64_t{task.slot.head} * table_.q_tiles + task.slot.q;
  }

  /// Before dQ is there: a turn that has come costs nothing then. false if the run has stopped, or
  /// reduces nothing.
  __device__ bool take_turn(const HopperTask& task) {
    if (run_.mode == Mode::no_reduce) return false;
    delay(run_, task.index, 1);
    if (run_.mode == Mode::atomic ||
        acquire(run_.locks + tile_of(task), task.slot.rank, run_.stop, run_.timeout_ns)) {
      return true;
    }
    shared_.stopped = 1;
    return false;
  }

  /// false, with dQ left where it is, if the run has stopped.
  __device__ bool write(const HopperTask& task, int slot, std::uint32_t parity) {
    const std::int64_t tile = tile_of(task);
    shared_.dq_full[slot][0].wait(parity);
    if (shared_.stopped != 0) return false;  // the other writer has, and dropped the task before
    stamp(run_, task.index, &TaskTimes::turn);
    std::int32_t n = 0;
    if (run_.counts != nullptr) n = atomicAdd(run_.counts + tile, 1);
    // The additions of the rank before were made visible to this thread's ordinary accesses by the
    // acquire; the fence extends that to its bulk ones.
    fence_async();
    add(task, tile, 0);
    shared_.dq_full[slot][1].wait(parity);
    add(task, tile, 1);
    wait_until_read<1>();
    shared_.dq_read[0].arrive();
    wait_until_read<0>();
    shared_.dq_read[1].arrive();
    // Not only read: the next rank's additions must not come before these (.read would allow it).
    wait_until_performed();
    stamp(run_, task.index, &TaskTimes::reduce_end);
    delay(run_, task.index, 2);
    if (run_.mode == Mode::deterministic) release(task.slot, tile);
    if (run_.counts != nullptr) run_.witness[table_.places[tile] + n] = task.index;
    delay(run_, task.index, 3);
    return true;
  }

  __device__ void add(const HopperTask& task, std::int64_t tile, int half) {
    const float* const from = shared_.tiles.dq + half * kHalf;
    float* const to = all_.dq_sums + tile * kDqHalves * kHalf + half * kHalf;
    if (run_.mode == Mode::deterministic && task.slot.rank == 0) {
      store_bytes(to, from, kBytes);  // no zeros are needed to begin with
    } else {
      add_floats(to, from, kBytes);
    }
    if (all_.partials != nullptr) {
      store_bytes(all_.partials + task.index * kDqHalves * kHalf + half * kHalf, from, kBytes);
    }
    commit_copies();
  }

  /// Takes dQ and does nothing with it.
  __device__ void drop(int slot, std::uint32_t parity) {
    for (int half = 0; half < kDqHalves; ++half) {
      shared_.dq_full[slot][half].wait(parity);
      shared_.dq_read[half].arrive();
    }
  }

  /// Delayed: the semaphore of the task before is released now, in the middle of the next one.
  __device__ void release(const CudaSlot& slot, std::int64_t tile) {
    if (!run_.delayed_release) {
      release_next(run_.locks + tile);
      return;
    }
    if (held_ >= 0) release_next(run_.locks + held_);
    held_ = tile;
    if (slot.ends_chain) {
      release_next(run_.locks + tile);
      held_ = -1;
    }
  }

  const CudaTable& table_;
  const CudaRun& run_;
  const HopperParameters& all_;
  Shared& shared_;
  std::int64_t held_ = -1;  ///< delayed release: the tile whose semaphore is still held
};

/// A thread of the two compute warpgroups.
template <class T, int kHeadDim, int kTileQ>
class HopperCompute {
 public:
  using Shared = HopperShared<T, kHeadDim, kTileQ>;

  __device__ HopperCompute(const CudaRun& run, const HopperParameters& all, Shared& shared)
      : run_(run), all_(all), shared_(shared), tile_(shared.tiles, all.scale) {}

  // Chain by chain and task by task, without a branch around a product and with none under way
  // where a loop begins again: ptxas keeps products asynchronous only where it can follow them.
  __device__ void play() {
    if (warpgroup() == 1) let_other_go();
    const HopperTask* task = &next_task();
    while (!task->is_last) {
      begin_chain();
      begin(*task);
      tile_.begin_dk(place_.stage);
      finish();
      const HopperTask* before = task;
      // Not a look at the next chain before this one's last dQ is on its way: the next one may be
      // taken only when others, who wait for that dQ, have gone on.
      while (!before->slot.ends_chain && !(task = &next_task())->is_last) {
        begin(*task);
        tile_.begin_dq(ds_before());
        finish_dq<1>(*before);
        // A task's compute phase is from the hand-over of the dQ before it to its own dQ.
        if (leads()) stamp(run_, task->index, &TaskTimes::compute_start);
        finish();
        before = task;
      }
      tile_.begin_dq(ds_before());
      finish_dq<0>(*before);
      end_chain(before->slot);
      if (before->slot.ends_chain) task = &next_task();
    }
  }

 private:
  __device__ const HopperTask& next_task() {
    shared_.task_full[task_.stage].wait(task_.parity);
    const HopperTask& task = shared_.tasks[task_.stage];
    task_.advance();
    return task;
  }

  // S^T and dP^T of one warpgroup, then those of the other: so the exponentials of one run beside
  // the products of the other, and not both at once.
  __device__ static void wait_for_go() {
    asm volatile("bar.sync %0, %1;" ::"r"(1 + warpgroup()), "n"(kComputeThreads) : "memory");
  }
  __device__ static void let_other_go() {
    asm volatile("bar.arrive %0, %1;" ::"r"(2 - warpgroup()), "n"(kComputeThreads) : "memory");
  }
  /// Of the two that compute.
  __device__ static int warpgroup() { return static_cast<int>(threadIdx.x) / kWarpgroup - 1; }

  __device__ void begin_chain() {
    tile_.begin_chain();
    shared_.k_full.wait(chain_parity_);
    shared_.v_full.wait(chain_parity_);
    chain_parity_ ^= 1;
  }

  /// All of a task but its dQ, of which dV and dK are under way in the end.
  __device__ void begin(const HopperTask& task) {
    const int stage = place_.stage;
    shared_.q_full[stage].wait(place_.parity);
    if (leads() && task.slot.begins_chain) stamp(run_, task.index, &TaskTimes::compute_start);
    wait_for_go();
    tile_.begin_scores(stage);
    shared_.d_out_full[stage].wait(place_.parity);
    tile_.begin_dp(stage);
    let_other_go();
    tile_.probabilities(stage, task.slot.partial >= 0);
    tile_.begin_dv(stage);
    shared_.ds_empty[stage].wait(place_.parity ^ 1);
    tile_.share_ds(stage);
    __syncwarp();
    arrive(shared_.ds_full[stage]);
  }

  __device__ void finish() {
    tile_.finish_dk();
    arrive(shared_.d_out_empty[place_.stage]);
    arrive(shared_.q_empty[place_.stage]);
    place_.advance();
  }

  /// The buffer with the dS of the task before, once both warpgroups have written it.
  __device__ int ds_before() {
    shared_.ds_full[dq_place_.stage].wait(dq_place_.parity);
    return dq_place_.stage;
  }

  /// Hands over a task's dQ once it is there.
  template <int kAfter>
  __device__ void finish_dq(const HopperTask& task) {
    if constexpr (kAfter == 1) tile_.begin_dk(place_.stage);
    tile_.template finish_dq<kAfter>();
    arrive(shared_.ds_empty[dq_place_.stage]);
    if (leads()) stamp(run_, task.index, &TaskTimes::compute_end);
    const int half = warpgroup();
    shared_.dq_read[half].wait(dq_parity_ ^ 1);
    dq_parity_ ^= 1;
    tile_.hand_over_dq();
    __syncwarp();
    arrive(shared_.dq_full[dq_place_.stage][half]);
    dq_place_.advance();
  }

  __device__ void end_chain(const CudaSlot& slot) {
    arrive(shared_.kv_empty);
    const std::int64_t key = std::int64_t{slot.kv} * kHopperTileKv;
    const std::int64_t first = (slot.head * all_.seq_kv + key) * kHeadDim;
    tile_.end_chain(static_cast<T*>(all_.dk) + first, static_cast<T*>(all_.dv) + first,
                    all_.seq_kv - key, all_.scale);
  }

  /// Once a warp. What its other threads read and wrote by ordinary accesses is before that, as
  /// there is a __syncwarp() between; products have read what they read when they are finished.
  __device__ static void arrive(Mbarrier& barrier) {
    if (threadIdx.x % 32 == 0) barrier.arrive();
  }

  /// The thread that keeps the books.
  __device__ static bool leads() { return threadIdx.x == kWarpgroup; }

  const CudaRun& run_;
  const HopperParameters& all_;
  Shared& shared_;
  HopperTile<T, kHeadDim, kTileQ> tile_;
  RingPlace<Shared::kTasks> task_;
  RingPlace<kStages> place_;
  RingPlace<kStages> dq_place_;  ///< of the task whose dQ is next
  std::uint32_t chain_parity_ = 0;
  std::uint32_t dq_parity_ = 0;
};

template <class T, int kHeadDim, int kTileQ>
__global__ void __launch_bounds__(kHopperThreads, 1)
    hopper(const __grid_constant__ CudaTable table, const __grid_constant__ CudaRun run,
           const __grid_constant__ HopperParameters parameters) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  using Shared = HopperShared<T, kHeadDim, kTileQ>;
  extern __shared__ __align__(kSwizzleBytes) unsigned char bytes[];
  Shared& shared = *reinterpret_cast<Shared*>(bytes);
  if (threadIdx.x == 0) {
    shared.init();
    std::int32_t smid;
    asm("mov.u32 %0, %%smid;" : "=r"(smid));
    run.smids[blockIdx.x] = smid;
  }
  __syncthreads();
  // Registers go to those who sum in them: 24 + 2 * 240 = 3 * 168.
  const auto warpgroup =
      __shfl_sync(0xffffffff, static_cast<int>(threadIdx.x) / kWarpgroup, 0);  // uniform, it says
  if (warpgroup == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    if (threadIdx.x == 0) HopperLoader<T, kHeadDim, kTileQ>(table, run, parameters, shared).play();
    // A delayed release is the next task's: one writer must have both.
    const int writers = run.delayed_release ? 1 : kDqSlots;
    const int writer = static_cast<int>(threadIdx.x) / 32 - 1;
    if (threadIdx.x % 32 == 0 && writer >= 0 && writer < writers) {
      HopperWriter<T, kHeadDim, kTileQ>(table, run, parameters, shared).play(writer, writers);
    }
    return;
  }
  asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
  HopperCompute<T, kHeadDim, kTileQ>(run, parameters, shared).play();
#endif
}

}  // namespace stagger::gpu
