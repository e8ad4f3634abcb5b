#pragma once

// The compute warpgroups of the hopper kernel: when each product begins, what it waits for and
// whom it tells. The products themselves are in tile.cuh.

#include "gpu/cuda/lanes.cuh"
#include "gpu/hopper/part_adder.cuh"

namespace stagger::gpu::hopper {

/// A thread of the two compute warpgroups.
template <class T, int kHeadDim, int kStepQ, Extras kExtras>
class Compute {
 public:
  using Shared = SharedMemory<T, kHeadDim, kStepQ>;

  __device__ Compute(const cuda::DeviceTable& table, const cuda::DeviceRun& run,
                     const Parameters& all, Shared& shared)
      : table_(table),
        run_(run),
        all_(all),
        shared_(shared),
        tile_(shared.tiles, shared.queries, all.scale) {}

  // Chain by chain and step by step, without a branch around a product and with none under way
  // where a loop begins again: ptxas keeps products asynchronous only where it can follow them.
  __device__ void play() {
    Marks marks = step_marks();
    while (!marks.is_last) {
      begin_chain();
      begin(marks);
      // ptxas puts a fence here by itself where it can follow how dK came to be 0; where it cannot,
      // it has products wait for each other.
      if constexpr (kInOrder) wgmma_fence();
      tile_.begin_dk(stage());
      finish();
      Marks before = marks;
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
  static constexpr bool kDrops = drops(kExtras);
  static constexpr bool kInOrder = adds_in_order(kExtras);

  /// Waits for the next step, and returns what it is.
  __device__ Marks step_marks() {
    const std::uint32_t place = buffer_of<Shared::kSteps>(step_);
    shared_.step_full[place].wait(parity_of<Shared::kSteps>(step_));
    return shared_.steps[place].marks;
  }

  __device__ void stamp(std::uint32_t step, ClockReading TaskClocks::*time) {
    cuda::stamp(run_, shared_.steps[buffer_of<Shared::kSteps>(step)].index, time);
  }

  /// Returns which of the two compute warpgroups this thread is in.
  __device__ static int warpgroup() { return static_cast<int>(threadIdx.x) / kWarpgroup - 1; }

  /// Returns the step's place in the rings of Q, dO and dS.
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

  /// Does all of a step but its dQ; dV and dK are under way when it returns.
  __device__ void begin(Marks marks) {
    const std::uint32_t parity = parity_of<kStages>(step_);
    std::conditional_t<kDrops, Kept<kStepQ>, KeepsAll> keeps(all_.dropout);
    if constexpr (kDrops) keeps.ask(dropout_place(marks));
    shared_.q_full[stage()].wait(parity);
    if (leads() && marks.begins_chain) stamp(step_, &TaskClocks::compute_start);
    tile_.begin_scores(k_stage(), stage());
    shared_.d_out_full[stage()].wait(parity);
    tile_.begin_dp(v_stage(), stage());
    if constexpr (kDrops) keeps.make(dropout_place(marks));
    tile_.finish_scores();
    if (marks.masked) hide(marks.bits);
    if constexpr (kDrops) keeps.hand_out();
    tile_.probabilities(stage(), keeps);
    if (marks.ends_chain) arrive(shared_.v_empty[v_stage()]);
    tile_.begin_dv(stage());
    shared_.ds_empty[stage()].wait(parity ^ 1);
    tile_.share_ds(stage());
    __syncwarp();
    arrive(shared_.ds_full[stage()]);
  }

  /// Hides what the step's queries do not see.
  __device__ void hide(std::uint32_t bits) {
    if (hides_bits(kExtras) && bits > 0) {
      tile_.hide_unseen(all_.bits + std::int64_t{bits - 1} * SeenBits{kStepQ}.bytes());
    } else {
      tile_.hide_unseen(stage());
    }
  }

  /// Finds the step's queries and this warp's keys among dropout's bits.
  [[nodiscard]] __device__ typename Kept<kStepQ>::Place dropout_place(Marks marks) const {
    const Step& step = shared_.steps[buffer_of<Shared::kSteps>(step_)];
    const std::int32_t batch = all_.heads.quotient(step.head);
    const std::int32_t q = step.tile - step.head * all_.q_tiles;
    const std::int32_t key = step.kv * kTileKv + tile_.first_key_of_warp();
    return {.first = {.batch = static_cast<std::uint32_t>(batch),
                      .head = static_cast<std::uint32_t>(step.head - batch * all_.heads.value()),
                      .query = static_cast<std::uint32_t>(((q << all_.log2_steps) + marks.step) *
                                                          kStepQ)},
            .half = static_cast<std::uint32_t>(key / 16)};
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
  __device__ void finish_dq(Marks marks) {
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

  /// Writes dK and dV of the chain's part, or those of the KV head if parts are added in order and
  /// this one is the last, from where K and dS were.
  __device__ void end_chain() {
    const std::uint32_t last = step_ - 1;
    bool has_all = true;
    if constexpr (kInOrder) {
      PartAdder<Tile<T, kHeadDim, kStepQ>, Shared> adder(
          table_, run_, all_, shared_, shared_.steps[buffer_of<Shared::kSteps>(last)]);
      has_all = adder.add(tile_, shared_.dkv_turn[buffer_of<2>(chain_)]);
    }
    if (has_all) write_gradients(last);
    // The places that are read, or were not needed.
    arrive(shared_.k_empty[k_stage()]);
    arrive(shared_.staged_read);
    ++chain_;
  }

  /// Writes this warp's keys of dK and dV, which its registers have.
  __device__ void write_gradients(std::uint32_t last) {
    // Both warpgroups have their last dQ.
    shared_.ds_empty[buffer_of<kStages>(last)].wait(parity_of<kStages>(last));
    const std::uint32_t k = k_stage();
    tile_.stage_gradients(k, all_.scale);
    __syncwarp();
    if (threadIdx.x % 32 == 0) {
      const Step& step = shared_.steps[buffer_of<Shared::kSteps>(last)];
      const std::int32_t batch = all_.heads.quotient(step.head);
      const std::int32_t head = step.head - batch * all_.heads.value();
      const BoxPlace place = {step.kv * kTileKv + tile_.first_key_of_warp(),
                              (kInOrder ? all_.group : all_.span).quotient(head), batch};
      store_tile(&all_.dk, tile_.dk_of_warp(k), place);
      store_tile(&all_.dv, tile_.dv_of_warp(), place);
      commit_copies();
      wait_until_read<0>();
    }
    __syncwarp();
  }

  __device__ static void store_tile(const CUtensorMap* map, const T* from, BoxPlace place) {
    constexpr int kPanelElements = kWarpKeys * kPanelColumns;
    for (int panel = 0; panel < kHeadDim / kPanelColumns; ++panel)
      store_box(map, from + panel * kPanelElements, panel * kPanelColumns, place);
  }

  /// Arrives for the whole warp. What its other threads read and wrote by ordinary accesses is
  /// before that, as there is a __syncwarp() between; products have read what they read when they
  /// are finished.
  __device__ static void arrive(Mbarrier& barrier) {
    if (threadIdx.x % 32 < kArrivingLanes) barrier.arrive();
  }

  /// Whether this is the thread that stamps.
  __device__ static bool leads() { return threadIdx.x == kWarpgroup; }

  /// What is kept of the table where nothing is asked of it: the compiler orders loads of the other
  /// roles another way when one more refers to it.
  struct NoTable {
    __device__ explicit NoTable(const cuda::DeviceTable&) {}
  };

  std::conditional_t<kInOrder, const cuda::DeviceTable&, NoTable> table_;
  const cuda::DeviceRun& run_;
  const Parameters& all_;
  Shared& shared_;
  Tile<T, kHeadDim, kStepQ> tile_;
  std::uint32_t step_ = 0;   ///< of this CTA, that is next or under way
  std::uint32_t chain_ = 0;  ///< of this CTA
};

}  // namespace stagger::gpu::hopper
