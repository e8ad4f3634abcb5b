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
  std::int32_t steps = 1;            ///< of a task
  float scale = 0;
};

/// A slot, or a step of it, on its way through the CTA.
struct HopperStep {
  std::int64_t index = 0;  ///< of the slot
  std::int32_t head = 0;
  std::int32_t kv = 0;
  std::int32_t tile = 0;  ///< (head, Q tile)
  std::int32_t rank = 0;
  std::int8_t step = 0;           ///< of its task
  std::int8_t lane_arrivals = 0;  ///< on lane_certain, once it has its turn
  bool partial = false;
  bool begins_task = false;
  bool ends_task = false;
  bool begins_chain = false;
  bool ends_chain = false;
  bool is_last = false;  ///< no step, the end of all
};

template <class T, int kHeadDim, int kStepQ>
struct HopperShared {
  using Tiles = HopperTiles<T, kHeadDim, kStepQ>;
  /// More than load, compute and writers can be apart, which is six: a step's place is written
  /// again when all of them have gone past it.
  static constexpr int kSteps = 7;
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
      next_place().is_last = true;
      publish();
    }
  }

 private:
  static constexpr std::uint32_t kKvBytes = kHopperTileKv * kHeadDim * sizeof(T);
  static constexpr std::uint32_t kQBytes = kStepQ * kHeadDim * sizeof(T);

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
      for (std::int32_t step = 0; step < all_.steps; ++step) {
        const std::int64_t after = (end - index) * all_.steps - step - 1;  // steps of the lane
        const bool alone = (end - begin) * all_.steps == 1;
        play_step(slot, index, step, after >= kDqSlots ? 0 : alone ? kDqSlots : 1);
      }
    }
    // A lane that is taken is held up by this one: not before it is sure to end, or the lanes that
    // it waits for might be the ones it keeps from others.
    if (is_stopped()) return;
    shared_.lane_certain.wait(lane_parity_);
    lane_parity_ ^= 1;
  }

  __device__ void play_step(const CudaSlot& slot, std::int64_t index, std::int32_t number,
                            std::int32_t lane_arrivals) {
    const bool begins = number == 0;
    const bool ends = number + 1 == all_.steps;
    HopperStep& step = next_place();
    step.index = index;
    step.head = slot.head;
    step.kv = slot.kv;
    step.tile = slot.head * table_.q_tiles + slot.q;
    step.rank = slot.rank;
    step.step = static_cast<std::int8_t>(number);
    step.lane_arrivals = static_cast<std::int8_t>(lane_arrivals);
    step.partial = slot.partial >= 0;
    step.begins_task = begins;
    step.ends_task = ends;
    step.begins_chain = slot.begins_chain && begins;
    step.ends_chain = slot.ends_chain && ends;
    step.is_last = false;
    publish();
    load(step, slot.q * all_.steps + number, slot.partial * all_.steps + number);
  }

  /// Where the next step is written. Room is certain: this warp has come here because compute has
  /// left the Q of two steps ago, and compute had to hand over the dQ of the step before that.
  __device__ HopperStep& next_place() { return shared_.steps[step_.stage]; }

  __device__ void publish() {
    shared_.step_full[step_.stage].arrive();
    step_.advance();
  }

  /// `q`, `partial`: the step among those of the head's Q tiles, and of the partial tiles.
  __device__ void load(const HopperStep& step, std::int32_t q, std::int32_t partial) {
    if (step.begins_chain) {
      shared_.k_empty[k_place_.stage].wait(k_place_.parity ^ 1);
      load_tile(shared_.tiles.k[k_place_.stage], &all_.k, step.kv * kHopperTileKv, step.head,
                kHopperTileKv, kKvBytes, shared_.k_full[k_place_.stage]);
      k_place_.advance();
    }
    shared_.q_empty[place_.stage].wait(place_.parity ^ 1);
    load_q(step, q, partial);
    if (step.begins_chain) {
      shared_.v_empty[v_place_.stage].wait(v_place_.parity ^ 1);
      load_tile(shared_.tiles.v[v_place_.stage], &all_.v, step.kv * kHopperTileKv, step.head,
                kHopperTileKv, kKvBytes, shared_.v_full[v_place_.stage]);
      v_place_.advance();
    }
    shared_.d_out_empty[place_.stage].wait(place_.parity ^ 1);
    load_tile(shared_.tiles.d_out[place_.stage], &all_.d_out, q * kStepQ, step.head, kStepQ,
              kQBytes, shared_.d_out_full[place_.stage]);
    place_.advance();
  }

  __device__ void load_q(const HopperStep& step, std::int32_t q, std::int32_t partial) {
    using Stats = QueryStats<kStepQ>;
    constexpr std::uint32_t kKeysBytes = kStepQ * sizeof(HopperKeys);
    Mbarrier& barrier = shared_.q_full[place_.stage];
    load_tile(shared_.tiles.q[place_.stage], &all_.q, q * kStepQ, step.head, kStepQ,
              kQBytes + sizeof(Stats) + (step.partial ? kKeysBytes : 0), barrier);
    const std::int64_t place = std::int64_t{step.tile} * all_.steps + step.step;
    load_bytes(&shared_.queries[place_.stage].stats,
               reinterpret_cast<const Stats*>(all_.stats) + place, sizeof(Stats), barrier);
    if (step.partial) {
      load_bytes(shared_.queries[place_.stage].keys, all_.keys + std::int64_t{partial} * kStepQ,
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
  RingPlace<Shared::kSteps> step_;
  RingPlace<Shared::kKStages> k_place_;
  RingPlace<Shared::kVStages> v_place_;
  RingPlace<kStages> place_;
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
    for (int number = first;; number += writers) {
      const int place = number % Shared::kSteps;
      shared_.step_full[place].wait(number / Shared::kSteps % 2);
      if (shared_.steps[place].is_last) return;
      const int slot = number % kDqSlots;
      const std::uint32_t parity = number / kDqSlots % 2;
      const HopperStep& step = shared_.steps[place];
      const bool has_turn = take_turn(step);
      for (int arrival = 0; arrival < step.lane_arrivals; ++arrival)
        shared_.lane_certain.arrive();
      if (!has_turn || !write(step, slot, parity)) drop(slot, parity);
    }
  }

 private:
  static constexpr int kHalf = kStepQ * kHeadDim / kDqHalves;
  static constexpr std::uint32_t kBytes = kHalf * sizeof(float);

  /// The semaphore of a step's dQ, and its sums among those of all.
  [[nodiscard]] __device__ std::int64_t place_of(const HopperStep& step) const {
    return std::int64_t{step.tile} * all_.steps + step.step;
  }

  /// Before dQ is there: a turn that has come costs nothing then. false if the run has stopped, or
  /// reduces nothing.
  __device__ bool take_turn(const HopperStep& step) {
    if (run_.mode == Mode::no_reduce) return false;
    if (step.begins_task) delay(run_, step.index, 1);
    if (run_.mode == Mode::atomic ||
        acquire(run_.locks + place_of(step), step.rank, run_.stop, run_.timeout_ns)) {
      return true;
    }
    shared_.stopped = 1;
    return false;
  }

  /// false, with dQ left where it is, if the run has stopped.
  __device__ bool write(const HopperStep& step, int slot, std::uint32_t parity) {
    const std::int64_t place = place_of(step);
    shared_.dq_full[slot][0].wait(parity);
    if (shared_.stopped != 0) return false;  // the other writer has, and dropped the step before
    if (step.ends_task) stamp(run_, step.index, &TaskClocks::turn);  // a step's: they overlap
    std::int32_t n = 0;
    if (run_.counts != nullptr && step.ends_task) n = atomicAdd(run_.counts + step.tile, 1);
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
    if (step.ends_task) stamp(run_, step.index, &TaskClocks::reduce_end);
    if (step.ends_task) delay(run_, step.index, 2);
    if (run_.mode == Mode::deterministic) release(step, place);
    if (run_.counts != nullptr && step.ends_task) {
      run_.witness[table_.places[step.tile] + n] = step.index;
    }
    if (step.ends_task) delay(run_, step.index, 3);
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
      const std::int64_t partial = step.index * all_.steps + step.step;
      store_bytes(all_.partials + partial * kDqHalves * kHalf + half * kHalf, from, kBytes);
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

  /// Delayed: what the task before holds is released now, with the end of the next one.
  __device__ void release(const HopperStep& step, std::int64_t place) {
    if (!run_.delayed_release) {
      release_next(run_.locks + place);
      return;
    }
    if (!step.ends_task) return;
    if (held_ >= 0) release_tile(held_);
    held_ = step.tile;
    if (step.ends_chain) {
      release_tile(step.tile);
      held_ = -1;
    }
  }
  __device__ void release_tile(std::int32_t tile) {
    for (std::int32_t step = 0; step < all_.steps; ++step)
      release_next(run_.locks + std::int64_t{tile} * all_.steps + step);
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
    if (warpgroup() == 1) let_other_go();
    const HopperStep* step = &next_step();
    while (!step->is_last) {
      begin_chain();
      begin(*step);
      tile_.begin_dk(place_.stage);
      finish();
      const HopperStep* before = step;
      // Not a look at the next chain before this one's last dQ is on its way: the next one may be
      // taken only when others, who wait for that dQ, have gone on.
      while (!before->ends_chain && !(step = &next_step())->is_last) {
        begin(*step);
        tile_.begin_dq(k_place_.stage, ds_before());
        finish_dq<1>(*before);
        // A task's compute phase is from the hand-over of the dQ before it to its own dQ.
        if (leads() && step->begins_task) stamp(run_, step->index, &TaskClocks::compute_start);
        finish();
        before = step;
      }
      tile_.begin_dq(k_place_.stage, ds_before());
      const RingPlace<kStages> last = dq_place_;
      finish_dq<0>(*before);
      end_chain(*before, last);
      if (before->ends_chain) step = &next_step();
    }
  }

 private:
  __device__ const HopperStep& next_step() {
    shared_.step_full[step_.stage].wait(step_.parity);
    const HopperStep& step = shared_.steps[step_.stage];
    step_.advance();
    return step;
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
    shared_.staged_read.wait(chain_parity_ ^ 1);
    shared_.k_full[k_place_.stage].wait(k_place_.parity);
    shared_.v_full[v_place_.stage].wait(v_place_.parity);
    chain_parity_ ^= 1;
  }

  /// All of a step but its dQ, of which dV and dK are under way in the end.
  __device__ void begin(const HopperStep& step) {
    const int stage = place_.stage;
    shared_.q_full[stage].wait(place_.parity);
    if (leads() && step.begins_chain) stamp(run_, step.index, &TaskClocks::compute_start);
    wait_for_go();
    tile_.begin_scores(k_place_.stage, stage);
    shared_.d_out_full[stage].wait(place_.parity);
    tile_.begin_dp(v_place_.stage, stage);
    let_other_go();
    tile_.probabilities(stage, step.partial);
    if (step.ends_chain) arrive(shared_.v_empty[v_place_.stage]);
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

  /// The buffer with the dS of the step before, once both warpgroups have written it.
  __device__ int ds_before() {
    shared_.ds_full[dq_place_.stage].wait(dq_place_.parity);
    return dq_place_.stage;
  }

  /// Hands over a step's dQ once it is there.
  template <int kAfter>
  __device__ void finish_dq(const HopperStep& step) {
    if constexpr (kAfter == 1) tile_.begin_dk(place_.stage);
    tile_.template finish_dq<kAfter>();
    arrive(shared_.ds_empty[dq_place_.stage]);
    if (leads() && step.ends_task) stamp(run_, step.index, &TaskClocks::compute_end);
    const int half = warpgroup();
    shared_.dq_read[half].wait(dq_parity_ ^ 1);
    dq_parity_ ^= 1;
    tile_.hand_over_dq();
    __syncwarp();
    arrive(shared_.dq_full[dq_place_.stage][half]);
    dq_place_.advance();
  }

  /// Writes dK and dV, from where K and dS were. `last`: the dS of the chain's last step.
  __device__ void end_chain(const HopperStep& step, const RingPlace<kStages>& last) {
    shared_.ds_empty[last.stage].wait(last.parity);  // both warpgroups have their last dQ
    tile_.stage_gradients(k_place_.stage, all_.scale);
    __syncwarp();
    if (threadIdx.x % 32 == 0) {
      const std::int32_t key = step.kv * kHopperTileKv + tile_.first_key_of_warp();
      store_tile(&all_.dk, tile_.dk_of_warp(k_place_.stage), key, step.head);
      store_tile(&all_.dv, tile_.dv_of_warp(), key, step.head);
      commit_copies();
      wait_until_read<0>();
    }
    __syncwarp();
    arrive(shared_.k_empty[k_place_.stage]);
    arrive(shared_.staged_read);
    k_place_.advance();
    v_place_.advance();
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
  RingPlace<Shared::kSteps> step_;
  RingPlace<Shared::kKStages> k_place_;
  RingPlace<Shared::kVStages> v_place_;
  RingPlace<kStages> place_;
  RingPlace<kStages> dq_place_;  ///< of the step whose dQ is next
  std::uint32_t chain_parity_ = 0;
  std::uint32_t dq_parity_ = 0;
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
