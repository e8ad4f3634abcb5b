#pragma once

// The load warp of the hopper kernel: takes lanes of the table, follows their slots and asks for
// what each step reads.

#include "gpu/cuda/lanes.cuh"
#include "gpu/hopper/shared.cuh"

namespace stagger::gpu::hopper {

/// The load warp's one thread.
template <class T, int kHeadDim, int kStepQ, Extras kExtras>
class Loader {
 public:
  using Shared = SharedMemory<T, kHeadDim, kStepQ>;

  __device__ Loader(const cuda::DeviceTable& table, const cuda::DeviceRun& run,
                    const Parameters& all, Shared& shared)
      : table_(table), run_(run), all_(all), shared_(shared) {}

  __device__ void play() {
    std::int32_t lane = run_.late ? next_lane() : static_cast<std::int32_t>(blockIdx.x);
    while (lane < table_.lanes && !is_stopped()) {
      if (run_.lane_sms != nullptr) {
        run_.lane_sms[lane].value = static_cast<std::int32_t>(blockIdx.x);
      }
      play_lane(lane);
      lane = next_lane();
    }
    for (int writer = 0; writer < kDqSlots; ++writer) {  // each looks at every other step only
      Marks marks{};
      marks.is_last = 1;
      publish({.marks = marks});
      ++step_;
    }
  }

 private:
  static constexpr std::uint32_t kKvBytes = kTileKv * kHeadDim * sizeof(T);
  static constexpr std::uint32_t kQBytes = kStepQ * kHeadDim * sizeof(T);

  /// Takes the first lane that nobody has.
  __device__ std::int32_t next_lane() {
    const std::int32_t taken = atomicAdd(run_.lanes_taken, 1);
    return run_.late ? taken : static_cast<std::int32_t>(gridDim.x) + taken;
  }

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
    if constexpr (adds_in_order(kExtras)) {
      // Nor does it end before its last chain has the turn at its KV tile. The chain two before has
      // given K back, so that the barrier is in this one's phase or past it.
      shared_.dkv_turn[buffer_of<2>(chain_ - 1)].wait(parity_of<2>(chain_ - 1));
    }
  }

  __device__ void play_step(std::int32_t number, bool ends_lane) {
    const std::int32_t index = number >> all_.log2_steps;
    const std::int32_t step = number & ((1 << all_.log2_steps) - 1);
    const bool begins = step == 0;
    const bool ends = (step + 1) >> all_.log2_steps != 0;
    if (begins) delay(run_, index, 0);
    const cuda::DeviceSlot slot = table_.slots[index];
    Marks marks{};
    marks.step = step;
    marks.ends_lane = ends_lane;
    marks.masked = slot.partial >= 0;
    if (has_bits(slot)) {
      marks.bits = ((slot.partial - all_.in_ranges) << all_.log2_steps) + step + 1;
    }
    marks.begins_task = begins;
    marks.ends_task = ends;
    marks.begins_chain = slot.begins_chain && begins;
    marks.ends_chain = slot.ends_chain && ends;
    const std::int32_t tile = slot.head * table_.q_tiles + slot.q;
    publish({index, slot.head, slot.kv, tile, slot.rank, marks});
    load(slot, slot.begins_chain && begins, step);
    ++step_;
  }

  /// Whether keys of it are seen by several ranges of queries: compute reads the bits itself.
  __device__ bool has_bits(const cuda::DeviceSlot& slot) const {
    return hides_bits(kExtras) && slot.partial >= all_.in_ranges;
  }

  /// Tells all other roles of a step. There is room: this warp has loaded the step before because
  /// compute had left the Q of the one three before this, and compute had to hand over the dQ of
  /// the one before that.
  __device__ void publish(const Step& step) {
    const std::uint32_t place = buffer_of<Shared::kSteps>(step_);
    shared_.steps[place] = step;
    shared_.step_full[place].arrive();
  }

  /// Asks for what a step reads, and for what its chain reads if it `begins` one.
  __device__ void load(const cuda::DeviceSlot& slot, bool begins, std::int32_t number) {
    const std::int32_t batch = all_.heads.quotient(slot.head);
    const std::int32_t head = slot.head - batch * all_.heads.value();
    if (begins) {
      const std::uint32_t stage = buffer_of<Shared::kKStages>(chain_);
      shared_.k_empty[stage].wait(parity_of<Shared::kKStages>(chain_) ^ 1);
      load_tile(shared_.tiles.k[stage], &all_.k,
                {slot.kv * kTileKv, all_.group.quotient(head), batch}, kTileKv, kKvBytes,
                shared_.k_full[stage]);
    }
    const std::uint32_t stage = buffer_of<kStages>(step_);
    const std::uint32_t empty = parity_of<kStages>(step_) ^ 1;
    const std::int32_t q = (slot.q << all_.log2_steps) + number;
    shared_.q_empty[stage].wait(empty);
    load_q(slot, {q * kStepQ, head, batch}, stage, q, number);
    if (begins) {
      const std::uint32_t v_stage = buffer_of<Shared::kVStages>(chain_);
      shared_.v_empty[v_stage].wait(parity_of<Shared::kVStages>(chain_) ^ 1);
      load_tile(shared_.tiles.v[v_stage], &all_.v,
                {slot.kv * kTileKv, all_.group.quotient(head), batch}, kTileKv, kKvBytes,
                shared_.v_full[v_stage]);
      ++chain_;
    }
    shared_.d_out_empty[stage].wait(empty);
    load_tile(shared_.tiles.d_out[stage], &all_.d_out, {q * kStepQ, head, batch}, kStepQ, kQBytes,
              shared_.d_out_full[stage]);
  }

  /// Asks for Q and what comes with it. `q` is the step among those of the head's Q tiles.
  __device__ void load_q(const cuda::DeviceSlot& slot, BoxPlace box, std::uint32_t stage,
                         std::int32_t q, std::int32_t number) {
    using Stats = QueryStats<kStepQ>;
    constexpr std::uint32_t kSeenBytes = kTileKv * sizeof(SeenQueries);
    const bool has_ranges = slot.partial >= 0 && !has_bits(slot);
    Mbarrier& barrier = shared_.q_full[stage];
    load_tile(shared_.tiles.q[stage], &all_.q, box, kStepQ,
              kQBytes + sizeof(Stats) + (has_ranges ? kSeenBytes : 0), barrier);
    const std::int32_t place = (slot.head * table_.q_tiles << all_.log2_steps) + q;
    load_bytes(&shared_.queries[stage].stats, reinterpret_cast<const Stats*>(all_.stats) + place,
               sizeof(Stats), barrier);
    if (has_ranges) {
      const std::int64_t masked = (std::int64_t{slot.partial} << all_.log2_steps) + number;
      load_bytes(shared_.queries[stage].seen, all_.queries + masked * kTileKv, kSeenBytes, barrier);
    }
  }

  /// Asks for all panels of a tile; `bytes` is all that the barrier has to wait for.
  __device__ static void load_tile(T* to, const CUtensorMap* map, BoxPlace place, int rows,
                                   std::uint32_t bytes, Mbarrier& barrier) {
    barrier.arrive_expecting(bytes);
    for (int panel = 0; panel < kHeadDim / kPanelColumns; ++panel)
      load_box(to + panel * rows * kPanelColumns, map, panel * kPanelColumns, place, barrier);
  }

  const cuda::DeviceTable& table_;
  const cuda::DeviceRun& run_;
  const Parameters& all_;
  Shared& shared_;
  std::uint32_t step_ = 0;   ///< of this CTA
  std::uint32_t chain_ = 0;  ///< of this CTA
  std::uint32_t lane_parity_ = 0;
};

}  // namespace stagger::gpu::hopper
