#pragma once

// The hopper kernel: a CTA of three warpgroups plays lanes of a table.
//
//   load warp     takes lanes, follows their slots, asks for K and V of a chain, Q and dO of a step
//   writer warps  wait for a step's turn, add its dQ in L2, pass the turn on; the two take turns
//   compute       two warpgroups (hopper_tile.cuh)
//
// A task is one step, or two where a whole Q tile does not fit into registers; a step's dQ has a
// semaphore of its own, and all steps of a task the same rank. Each role runs ahead as far as the
// buffers between them let it: two or one K and V, two Q and dO, one dQ. So the model is
// `overlap`: the compute of a task beside the reduction of the one before.
//
//   what            from → to            full                     empty
//   step            load → all           step                     (by the others' order)
//   K               load → compute       k: bytes                 k: a warp each
//   V               load → compute       v: bytes                 v: a warp each
//   Q + stats       load → compute       q: bytes                 q: a warp each
//   dO              load → compute       d_out: bytes             d_out: a warp each
//   dQ              compute → writer     dq: a warp each          dq_read: the writer
//   dK, dV          compute → memory                              k, staged: a warp each

#include "gpu/cuda_lanes.cuh"
#include "gpu/hopper_tile.cuh"

namespace stagger::gpu {

inline constexpr int kHopperThreads = 3 * kWarpgroup;
inline constexpr int kDqHalves = 2;  ///< of a step's dQ: a compute warpgroup's each
inline constexpr int kDqSlots = 2;   ///< writers: who takes turns needs a barrier of his own
static_assert(kDqSlots == kStages);  // a step's place in the ring of dS is its writer's too
inline constexpr std::size_t kMostShared = 227 << 10;  ///< that a CTA can have on sm_90

/// Lanes that arrive for a warp: one, after a __syncwarp(). racecheck does not see that it is also
/// for the others; a build for it has them all arrive.
#ifdef STAGGER_RACECHECK
inline constexpr int kArrivingLanes = 32;
#else
inline constexpr int kArrivingLanes = 1;
#endif

/// Tensors are laid out as AttentionShape says.
struct HopperParameters {
  CUtensorMap q;  ///< by boxes of step_q x 64, d_out too
  CUtensorMap d_out;
  CUtensorMap k;  ///< by boxes of 128 x 64, v too
  CUtensorMap v;
  CUtensorMap dk;  ///< by boxes of 16 x 64, dv too
  CUtensorMap dv;
  const float* stats = nullptr;      ///< QueryStats by (head, Q tile, step)
  const HopperKeys* keys = nullptr;  ///< (partial tile, query in the tile)
  float* dq_sums = nullptr;          ///< by (head, Q tile, step), in the order of dq_place
  float* partials = nullptr;         ///< by (slot, step), as dq_sums; nullptr: they are not kept
  std::int32_t log2_steps = 0;       ///< of the number of a task's steps
  float scale = 0;
};

/// What a step is. One word: shared memory is slow to answer while products read it.
struct HopperMarks {
  std::uint32_t step : 1;       ///< of its task
  std::uint32_t ends_lane : 1;  ///< of two that arrive on lane_certain, once they have turns
  std::uint32_t partial : 1;
  std::uint32_t begins_task : 1;
  std::uint32_t ends_task : 1;
  std::uint32_t begins_chain : 1;
  std::uint32_t ends_chain : 1;
  std::uint32_t is_last : 1;  ///< no step, the end of all
};

/// A slot, or a step of it, on its way through the CTA.
struct alignas(8) HopperStep {
  std::int32_t index;  ///< of the slot: there are fewer than 2^31 (kMaxTasks)
  std::int32_t head;
  std::int32_t kv;
  std::int32_t tile;  ///< (head, Q tile)
  std::int32_t rank;
  HopperMarks marks;
};

template <class T, int kHeadDim, int kStepQ>
struct HopperShared {
  using Tiles = HopperTiles<T, kHeadDim, kStepQ>;
  /// More than load, compute and writers can be apart, which is five: a step's place is written
  /// again when all of them have gone past it.
  static constexpr int kSteps = 8;
  static constexpr int kKStages = Tiles::kKStages;
  static constexpr int kVStages = Tiles::kVStages;
  static constexpr int kComputeArrivals = kComputeThreads / 32 * kArrivingLanes;

  Tiles tiles;
  HopperQueries<kStepQ> queries[kStages];
  HopperStep steps[kSteps];
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

  __device__ void init() {
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
    stopped = 0;
    fence_mbarrier_init();
  }
};

/// One thread.
template <class T, int kHeadDim, int kStepQ>
class HopperLoader {
 public:
  using Shared = HopperShared<T, kHeadDim, kStepQ>;

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
    for (int writer = 0; writer < kDqSlots; ++writer) {  // each looks at every other step only
      HopperMarks marks{};
      marks.is_last = 1;
      publish({.marks = marks});
      ++step_;
    }
  }

 private:
  static constexpr std::uint32_t kKvBytes = kHopperTileKv * kHeadDim * sizeof(T);
  static constexpr std::uint32_t kQBytes = kStepQ * kHeadDim * sizeof(T);

  __device__ bool is_stopped() const {
    return *static_cast<const volatile std::int32_t*>(&shared_.stopped) != 0;
  }

  __device__ void play_lane(std::int32_t lane) {
    // Numbers of steps of the table, fewer than 2^28 (kMaxTasks).
    auto number = static_cast<std::int32_t>(table_.lane_begin[lane]) << all_.log2_steps;
    const auto end = static_cast<std::int32_t>(table_.lane_begin[lane + 1]) << all_.log2_steps;
    if (number == end) return;
    if (number + 1 == end) shared_.lane_certain.arrive();  // in the place of a second step
    for (; number < end && !is_stopped(); ++number)
      play_step(number, end - number <= kDqSlots);
    // A lane that is taken is held up by this one: not before it is sure to end, or the lanes that
    // it waits for might be the ones it keeps from others.
    if (is_stopped()) return;
    shared_.lane_certain.wait(lane_parity_);
    lane_parity_ ^= 1;
  }

  __device__ void play_step(std::int32_t number, bool ends_lane) {
    const std::int32_t index = number >> all_.log2_steps;
    const std::int32_t step = number & ((1 << all_.log2_steps) - 1);
    const bool begins = step == 0;
    const bool ends = (step + 1) >> all_.log2_steps != 0;
    if (begins) delay(run_, index, 0);
    const CudaSlot slot = table_.slots[index];
    HopperMarks marks{};
    marks.step = step;
    marks.ends_lane = ends_lane;
    marks.partial = slot.partial >= 0;
    marks.begins_task = begins;
    marks.ends_task = ends;
    marks.begins_chain = slot.begins_chain && begins;
    marks.ends_chain = slot.ends_chain && ends;
    const std::int32_t tile = slot.head * table_.q_tiles + slot.q;
    publish({index, slot.head, slot.kv, tile, slot.rank, marks});
    load(slot, slot.begins_chain && begins, step);
    ++step_;
  }

  /// To all. There is room: this warp has loaded the step before because compute had left the Q of
  /// the one three before this, and compute had to hand over the dQ of the one before that.
  __device__ void publish(const HopperStep& step) {
    const std::uint32_t place = buffer_of<Shared::kSteps>(step_);
    shared_.steps[place] = step;
    shared_.step_full[place].arrive();
  }

  /// What a step reads, and what its chain reads if it `begins` one.
  __device__ void load(const CudaSlot& slot, bool begins, std::int32_t number) {
    if (begins) {
      const std::uint32_t stage = buffer_of<Shared::kKStages>(chain_);
      shared_.k_empty[stage].wait(parity_of<Shared::kKStages>(chain_) ^ 1);
      load_tile(shared_.tiles.k[stage], &all_.k, slot.kv * kHopperTileKv, slot.head, kHopperTileKv,
                kKvBytes, shared_.k_full[stage]);
    }
    const std::uint32_t stage = buffer_of<kStages>(step_);
    const std::uint32_t empty = parity_of<kStages>(step_) ^ 1;
    const std::int32_t q = (slot.q << all_.log2_steps) + number;
    shared_.q_empty[stage].wait(empty);
    load_q(slot, stage, q, number);
    if (begins) {
      const std::uint32_t v_stage = buffer_of<Shared::kVStages>(chain_);
      shared_.v_empty[v_stage].wait(parity_of<Shared::kVStages>(chain_) ^ 1);
      load_tile(shared_.tiles.v[v_stage], &all_.v, slot.kv * kHopperTileKv, slot.head,
                kHopperTileKv, kKvBytes, shared_.v_full[v_stage]);
      ++chain_;
    }
    shared_.d_out_empty[stage].wait(empty);
    load_tile(shared_.tiles.d_out[stage], &all_.d_out, q * kStepQ, slot.head, kStepQ, kQBytes,
              shared_.d_out_full[stage]);
  }

  /// `q`: the step among those of the head's Q tiles.
  __device__ void load_q(const CudaSlot& slot, std::uint32_t stage, std::int32_t q,
                         std::int32_t number) {
    using Stats = QueryStats<kStepQ>;
    constexpr std::uint32_t kKeysBytes = kStepQ * sizeof(HopperKeys);
    const bool partial = slot.partial >= 0;
    Mbarrier& barrier = shared_.q_full[stage];
    load_tile(shared_.tiles.q[stage], &all_.q, q * kStepQ, slot.head, kStepQ,
              kQBytes + sizeof(Stats) + (partial ? kKeysBytes : 0), barrier);
    const std::int32_t place = (slot.head * table_.q_tiles << all_.log2_steps) + q;
    load_bytes(&shared_.queries[stage].stats, reinterpret_cast<const Stats*>(all_.stats) + place,
               sizeof(Stats), barrier);
    if (partial) {
      const std::int64_t keys = (std::int64_t{slot.partial} << all_.log2_steps) + number;
      load_bytes(shared_.queries[stage].keys, all_.keys + keys * kStepQ, kKeysBytes, barrier);
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
  std::uint32_t step_ = 0;   ///< of this CTA
  std::uint32_t chain_ = 0;  ///< of this CTA
  std::uint32_t lane_parity_ = 0;
};

/// One thread: bulk copies complete for the thread that asked for them.
template <class T, int kHeadDim, int kStepQ>
class HopperWriter {
 public:
  using Shared = HopperShared<T, kHeadDim, kStepQ>;

  __device__ HopperWriter(const CudaTable& table, const CudaRun& run, const HopperParameters& all,
                          Shared& shared)
      : table_(table), run_(run), all_(all), shared_(shared) {}

  /// Every `writers`-th step from the CTA's `first`. Two writers take turns: while one waits until
  /// its additions are performed, the other has the next step's turn and dQ.
  __device__ void play(int first, int writers) {
    for (std::uint32_t number = first;; number += writers) {
      const std::uint32_t place = buffer_of<Shared::kSteps>(number);
      shared_.step_full[place].wait(parity_of<Shared::kSteps>(number));
      const HopperStep step = shared_.steps[place];
      if (step.marks.is_last) return;
      const std::uint32_t slot = buffer_of<kDqSlots>(number);
      const std::uint32_t parity = parity_of<kDqSlots>(number);
      const bool has_turn = take_turn(step);
      if (step.marks.ends_lane) shared_.lane_certain.arrive();
      if (!has_turn || !write(step, slot, parity)) drop(slot, parity);
    }
  }

 private:
  static constexpr int kHalf = kStepQ * kHeadDim / kDqHalves;
  static constexpr std::uint32_t kBytes = kHalf * sizeof(float);

  /// The semaphore of a step's dQ, and its sums among those of all.
  [[nodiscard]] __device__ std::int64_t place_of(const HopperStep& step) const {
    return (std::int64_t{step.tile} << all_.log2_steps) + step.marks.step;
  }

  /// Before dQ is there: a turn that has come costs nothing then. false if the run has stopped, or
  /// reduces nothing.
  __device__ bool take_turn(const HopperStep& step) {
    if (run_.mode == Mode::no_reduce) return false;
    if (step.marks.begins_task) delay(run_, step.index, 1);
    if (run_.mode == Mode::atomic ||
        acquire(run_.locks + place_of(step), step.rank, run_.stop, run_.timeout_ns)) {
      return true;
    }
    shared_.stopped = 1;
    return false;
  }

  /// false, with dQ left where it is, if the run has stopped.
  __device__ bool write(const HopperStep& step, std::uint32_t slot, std::uint32_t parity) {
    const std::int64_t place = place_of(step);
    shared_.dq_full[slot][0].wait(parity);
    if (shared_.stopped != 0) return false;  // the other writer has, and dropped the step before
    if (step.marks.ends_task) stamp(run_, step.index, &TaskClocks::turn);  // a step's: they overlap
    std::int32_t n = 0;
    if (run_.counts != nullptr && step.marks.ends_task) n = atomicAdd(run_.counts + step.tile, 1);
    // The additions of the rank before were made visible to this thread's ordinary accesses by the
    // acquire; the fence extends that to its bulk ones.
    fence_async_global();
    add(step, place, 0);
    shared_.dq_full[slot][1].wait(parity);
    add(step, place, 1);
    wait_until_read<1>();
    shared_.dq_read[0].arrive();
    wait_until_read<0>();
    shared_.dq_read[1].arrive();
    // Not only read: the next rank's additions must not come before these (.read would allow it).
    wait_until_performed();
    const ClockReading end = clocks(run_);  // kept after the release, which would wait for it
    if (step.marks.ends_task) delay(run_, step.index, 2);
    if (run_.mode == Mode::deterministic) release(step, place);
    if (step.marks.ends_task) keep(run_, step.index, &TaskClocks::reduce_end, end);
    if (run_.counts != nullptr && step.marks.ends_task) {
      run_.witness[table_.places[step.tile] + n] = step.index;
    }
    if (step.marks.ends_task) delay(run_, step.index, 3);
    return true;
  }

  __device__ void add(const HopperStep& step, std::int64_t place, int half) {
    const float* const from = shared_.tiles.dq + half * kHalf;
    float* const to = all_.dq_sums + place * kDqHalves * kHalf + half * kHalf;
    if (run_.mode == Mode::deterministic && step.rank == 0) {
      store_bytes(to, from, kBytes);  // no zeros are needed to begin with
    } else {
      add_floats(to, from, kBytes);
    }
    if (all_.partials != nullptr) {
      const std::int64_t partial = (std::int64_t{step.index} << all_.log2_steps) + step.marks.step;
      store_bytes(all_.partials + partial * kDqHalves * kHalf + half * kHalf, from, kBytes);
    }
    commit_copies();
  }

  /// Takes dQ and does nothing with it.
  __device__ void drop(std::uint32_t slot, std::uint32_t parity) {
    for (int half = 0; half < kDqHalves; ++half) {
      shared_.dq_full[slot][half].wait(parity);
      shared_.dq_read[half].arrive();
    }
  }

  /// Delayed: what the task before holds is released now, with the end of the next one.
  __device__ void release(const HopperStep& step, std::int64_t place) {
    if (!run_.delayed_release) {
      release_next(run_.locks + place);
      return;
    }
    if (!step.marks.ends_task) return;
    if (held_ >= 0) release_tile(held_);
    held_ = step.tile;
    if (step.marks.ends_chain) {
      release_tile(step.tile);
      held_ = -1;
    }
  }
  __device__ void release_tile(std::int32_t tile) {
    for (std::int32_t step = 0; step < 1 << all_.log2_steps; ++step)
      release_next(run_.locks + (std::int64_t{tile} << all_.log2_steps) + step);
  }

  const CudaTable& table_;
  const CudaRun& run_;
  const HopperParameters& all_;
  Shared& shared_;
  std::int32_t held_ = -1;  ///< delayed release: the tile whose semaphores are still held
};

/// A thread of the two compute warpgroups.
template <class T, int kHeadDim, int kStepQ>
class HopperCompute {
 public:
  using Shared = HopperShared<T, kHeadDim, kStepQ>;

  __device__ HopperCompute(const CudaRun& run, const HopperParameters& all, Shared& shared)
      : run_(run), all_(all), shared_(shared), tile_(shared.tiles, shared.queries, all.scale) {}

  // Chain by chain and step by step, without a branch around a product and with none under way
  // where a loop begins again: ptxas keeps products asynchronous only where it can follow them.
  __device__ void play() {
    HopperMarks marks = step_marks();
    while (!marks.is_last) {
      begin_chain();
      begin(marks);
      tile_.begin_dk(stage());
      finish();
      HopperMarks before = marks;
      // Not a look at the next chain before this one's last dQ is on its way: the next one may be
      // taken only when others, who wait for that dQ, have gone on.
      while (!before.ends_chain && !(marks = step_marks()).is_last) {
        begin(marks);
        begin_dq();
        finish_dq<1>(before);
        // A task's compute phase is from the hand-over of the dQ before it to its own dQ.
        if (leads() && marks.begins_task) stamp(step_, &TaskClocks::compute_start);
        finish();
        before = marks;
      }
      begin_dq();
      finish_dq<0>(before);
      end_chain();
      if (before.ends_chain) marks = step_marks();
    }
  }

 private:
  /// Of the step that is next.
  __device__ HopperMarks step_marks() {
    const std::uint32_t place = buffer_of<Shared::kSteps>(step_);
    shared_.step_full[place].wait(parity_of<Shared::kSteps>(step_));
    return shared_.steps[place].marks;
  }

  __device__ void stamp(std::uint32_t step, ClockReading TaskClocks::*time) {
    gpu::stamp(run_, shared_.steps[buffer_of<Shared::kSteps>(step)].index, time);
  }

  /// Of the two that compute.
  __device__ static int warpgroup() { return static_cast<int>(threadIdx.x) / kWarpgroup - 1; }

  /// Of Q, dO and dS: the step's place in their rings.
  [[nodiscard]] __device__ std::uint32_t stage() const { return buffer_of<kStages>(step_); }
  [[nodiscard]] __device__ std::uint32_t k_stage() const {
    return buffer_of<Shared::kKStages>(chain_);
  }
  [[nodiscard]] __device__ std::uint32_t v_stage() const {
    return buffer_of<Shared::kVStages>(chain_);
  }

  __device__ void begin_chain() {
    tile_.begin_chain();
    shared_.staged_read.wait(parity_of<1>(chain_) ^ 1);
    shared_.k_full[k_stage()].wait(parity_of<Shared::kKStages>(chain_));
    shared_.v_full[v_stage()].wait(parity_of<Shared::kVStages>(chain_));
  }

  /// All of a step but its dQ, of which dV and dK are under way in the end.
  __device__ void begin(HopperMarks marks) {
    const std::uint32_t parity = parity_of<kStages>(step_);
    shared_.q_full[stage()].wait(parity);
    if (leads() && marks.begins_chain) stamp(step_, &TaskClocks::compute_start);
    tile_.begin_scores(k_stage(), stage());
    shared_.d_out_full[stage()].wait(parity);
    tile_.begin_dp(v_stage(), stage());
    tile_.probabilities(stage(), marks.partial);
    if (marks.ends_chain) arrive(shared_.v_empty[v_stage()]);
    tile_.begin_dv(stage());
    shared_.ds_empty[stage()].wait(parity ^ 1);
    tile_.share_ds(stage());
    __syncwarp();
    arrive(shared_.ds_full[stage()]);
  }

  __device__ void finish() {
    tile_.finish_dk();
    arrive(shared_.d_out_empty[stage()]);
    arrive(shared_.q_empty[stage()]);
    ++step_;
  }

  // dQ comes one step late, when both warpgroups have long written its dS.

  __device__ void begin_dq() {
    const std::uint32_t stage = buffer_of<kStages>(step_ - 1);
    shared_.ds_full[stage].wait(parity_of<kStages>(step_ - 1));
    tile_.begin_dq(k_stage(), stage);
  }

  /// Hands over a dQ once it is there.
  template <int kAfter>
  __device__ void finish_dq(HopperMarks marks) {
    const std::uint32_t dq_stage = buffer_of<kStages>(step_ - 1);
    if constexpr (kAfter == 1) tile_.begin_dk(stage());
    tile_.template finish_dq<kAfter>();
    arrive(shared_.ds_empty[dq_stage]);
    if (leads() && marks.ends_task) stamp(step_ - 1, &TaskClocks::compute_end);
    const int half = warpgroup();
    shared_.dq_read[half].wait(parity_of<1>(step_ - 1) ^ 1);
    tile_.hand_over_dq();
    __syncwarp();
    arrive(shared_.dq_full[dq_stage][half]);
  }

  /// Writes dK and dV, from where K and dS were.
  __device__ void end_chain() {
    const std::uint32_t last = step_ - 1;
    // Both warpgroups have their last dQ.
    shared_.ds_empty[buffer_of<kStages>(last)].wait(parity_of<kStages>(last));
    const std::uint32_t k = k_stage();
    tile_.stage_gradients(k, all_.scale);
    __syncwarp();
    if (threadIdx.x % 32 == 0) {
      const HopperStep& step = shared_.steps[buffer_of<Shared::kSteps>(last)];
      const std::int32_t key = step.kv * kHopperTileKv + tile_.first_key_of_warp();
      store_tile(&all_.dk, tile_.dk_of_warp(k), key, step.head);
      store_tile(&all_.dv, tile_.dv_of_warp(), key, step.head);
      commit_copies();
      wait_until_read<0>();
    }
    __syncwarp();
    arrive(shared_.k_empty[k]);
    arrive(shared_.staged_read);
    ++chain_;
  }

  __device__ static void store_tile(const CUtensorMap* map, const T* from, std::int32_t key,
                                    std::int32_t head) {
    constexpr int kPanelElements = HopperTile<T, kHeadDim, kStepQ>::kWarpKeys * kPanelColumns;
    for (int panel = 0; panel < kHeadDim / kPanelColumns; ++panel)
      store_box(map, from + panel * kPanelElements, panel * kPanelColumns, key, head);
  }

  /// Once a warp. What its other threads read and wrote by ordinary accesses is before that, as
  /// there is a __syncwarp() between; products have read what they read when they are finished.
  __device__ static void arrive(Mbarrier& barrier) {
    if (threadIdx.x % 32 < kArrivingLanes) barrier.arrive();
  }

  /// The thread that keeps the books.
  __device__ static bool leads() { return threadIdx.x == kWarpgroup; }

  const CudaRun& run_;
  const HopperParameters& all_;
  Shared& shared_;
  HopperTile<T, kHeadDim, kStepQ> tile_;
  std::uint32_t step_ = 0;   ///< of this CTA, that is next or under way
  std::uint32_t chain_ = 0;  ///< of this CTA
};

template <class T, int kHeadDim, int kStepQ>
__global__ void __launch_bounds__(kHopperThreads, 1)
    hopper(const __grid_constant__ CudaTable table, const __grid_constant__ CudaRun run,
           const __grid_constant__ HopperParameters parameters) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  using Shared = HopperShared<T, kHeadDim, kStepQ>;
  static_assert(sizeof(Shared) <= kMostShared);
  extern __shared__ __align__(kSwizzleBytes) unsigned char bytes[];
  Shared& shared = *reinterpret_cast<Shared*>(bytes);
  if (threadIdx.x == 0) {
    shared.init();
    std::int32_t smid;
    asm("mov.u32 %0, %%smid;" : "=r"(smid));
    run.smids[blockIdx.x] = smid;
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
    if (threadIdx.x == 0) HopperLoader<T, kHeadDim, kStepQ>(table, run, parameters, shared).play();
    // A delayed release is the next task's: one writer must have both.
    const int writers = run.delayed_release ? 1 : kDqSlots;
    const int writer = static_cast<int>(threadIdx.x) / 32 - 1;
    if (threadIdx.x % 32 == 0 && writer >= 0 && writer < writers) {
      HopperWriter<T, kHeadDim, kStepQ>(table, run, parameters, shared).play(writer, writers);
    }
    return;
  }
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kMany));
  HopperCompute<T, kHeadDim, kStepQ>(run, parameters, shared).play();
#endif
}

}  // namespace stagger::gpu
