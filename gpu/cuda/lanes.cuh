#pragma once

// How a CTA follows a table. CTA i begins with lane i; whoever comes to its lane's end takes the
// next lane that nobody has, so that the grid's size is the residency, for both kinds of dispatch.
// What a task does is a Work's affair, whose functions are called by all threads of the CTA:
//
//   void begin_chain(const DeviceSlot&)                 compute_start ─┐
//   void compute(std::int64_t slot, const DeviceSlot&)                 ├─ compute_end
//                                                     turn ─┐ acquired by thread 0, barrier
//   void reduce(std::int64_t slot, const DeviceSlot&)         ├─ reduce_end: barrier, released
//   void end_chain(const DeviceSlot&)
//   void add_dkv(std::int32_t rank, const DeviceSlot&)         where parts are added in order: like
//                                                              reduce, under the KV tile's lock

#include "gpu/cuda/semaphore.cuh"
#include "gpu/cuda/table.cuh"

namespace stagger::gpu::cuda {

/// Reads both clocks if the run is stamped.
__device__ inline ClockReading clocks(const DeviceRun& run) {
  if (run.times == nullptr) return {};
  const std::int64_t ns = global_time();
  return {.ns = ns, .cycles = sm_cycles()};
}
__device__ inline void keep(const DeviceRun& run, std::int64_t index,
                            ClockReading TaskClocks::*time, const ClockReading& reading) {
  if (run.times != nullptr) run.times[index].*time = reading;
}

/// Stamps a task if the run is stamped. For one thread.
__device__ inline void stamp(const DeviceRun& run, std::int64_t index,
                             ClockReading TaskClocks::*time) {
  keep(run, index, time, clocks(run));
}

/// Spins for the delay that a perturbed run has at a place. For one thread.
__device__ inline void delay(const DeviceRun& run, std::int64_t index, int place) {
  if (run.delays != nullptr) spin(std::int64_t{1000} * run.delays[kDelayPlaces * index + place]);
}

template <class Work>
class LanePlayer {
 public:
  __device__ LanePlayer(const DeviceTable& table, const DeviceRun& run, Work& work)
      : table_(table), run_(run), work_(work) {}

  /// Plays lanes until there are no more or the run has stopped.
  __device__ void play() {
    if (leads()) run_.smids[blockIdx.x] = smid();
    auto lane = static_cast<std::int32_t>(blockIdx.x);
    while (lane < table_.lanes && play_lane(lane))
      lane = next_lane();
  }

 private:
  /// Plays all slots of a lane; false if the run has stopped.
  __device__ bool play_lane(std::int32_t lane) {
    if (leads()) run_.lane_sms[lane].value = static_cast<std::int32_t>(blockIdx.x);
    std::int64_t slot = table_.lane_begin[lane];
    const std::int64_t end = table_.lane_begin[lane + 1];
    while (slot < end && play_slot(slot))
      ++slot;
    return slot == end;
  }

  __device__ bool play_slot(std::int64_t index) {
    const DeviceSlot slot = table_.slots[index];
    delay(index, 0);
    stamp(index, &TaskClocks::compute_start);
    if (slot.begins_chain) work_.begin_chain(slot);
    work_.compute(index, slot);
    __syncthreads();
    stamp(index, &TaskClocks::compute_end);
    if (run_.mode != Mode::no_reduce && !take_turn(index, slot)) return false;
    if (!slot.ends_chain) return true;
    work_.end_chain(slot);
    return table_.dkv_ranks == nullptr || take_dkv_turn(slot);
  }

  /// Adds a chain to its KV tile's dK and dV when its rank has the turn.
  __device__ bool take_dkv_turn(const DeviceSlot& slot) {
    const std::int64_t chain = table_.chain_of(slot);
    const std::int64_t tile = table_.dkv_tile_of(slot);
    const std::int32_t rank = table_.dkv_ranks[chain];
    const bool ordered = run_.mode != Mode::atomic;
    bool late = false;
    if (leads()) {
      run_.chain_times[chain].ready = global_time();
      late = ordered && !acquire(run_.dkv_locks + tile, rank, run_.stop, run_.timeout_ns);
    }
    if (__syncthreads_or(late)) return false;
    if (leads()) run_.chain_times[chain].turn = global_time();
    work_.add_dkv(rank, slot);
    __syncthreads();  // the barrier before the release
    if (leads()) {
      const std::int32_t n = atomicAdd(run_.dkv_counts + tile, 1);
      run_.dkv_witness[tile * table_.parts + n] = slot.head / table_.span;
      run_.chain_times[chain].end = global_time();
      if (ordered) release_next(run_.dkv_locks + tile);
    }
    return true;
  }

  __device__ bool take_turn(std::int64_t index, const DeviceSlot& slot) {
    const std::int64_t tile = std::int64_t{slot.head} * table_.q_tiles + slot.q;
    delay(index, 1);
    bool late = false;
    if (leads() && run_.mode == Mode::deterministic) {
      late = !acquire(run_.locks + tile, slot.rank, run_.stop, run_.timeout_ns);
    }
    // Also the barrier after the acquire (semaphore.cuh).
    if (__syncthreads_or(late)) return false;
    stamp(index, &TaskClocks::turn);
    if (held_ >= 0) release(index, held_);
    held_ = -1;
    work_.reduce(index, slot);
    __syncthreads();  // the barrier before the release
    if (leads()) {
      const std::int32_t n = atomicAdd(run_.counts + tile, 1);
      run_.witness[table_.places[tile] + n] = index;
    }
    stamp(index, &TaskClocks::reduce_end);
    delay(index, 2);
    if (run_.delayed_release && !slot.ends_chain) {
      held_ = tile;
    } else {
      release(index, tile);
    }
    return true;
  }

  __device__ void release(std::int64_t index, std::int64_t tile) {
    if (leads() && run_.mode == Mode::deterministic) release_next(run_.locks + tile);
    delay(index, 3);
  }

  __device__ std::int32_t next_lane() {
    __shared__ std::int32_t next;
    if (leads()) {
      next = is_stopped(run_.stop)
                 ? table_.lanes
                 : static_cast<std::int32_t>(gridDim.x) + atomicAdd(run_.lanes_taken, 1);
    }
    __syncthreads();
    const std::int32_t lane = next;
    __syncthreads();  // before the next call writes it
    return lane;
  }

  __device__ void stamp(std::int64_t index, ClockReading TaskClocks::*time) {
    if (leads()) cuda::stamp(run_, index, time);
  }

  __device__ void delay(std::int64_t index, int place) {
    if (leads()) cuda::delay(run_, index, place);
  }

  /// Whether this is the thread that waits, releases, stamps and leaves the witness.
  __device__ static bool leads() { return threadIdx.x == 0; }

  __device__ static std::int32_t smid() {
    std::int32_t id;
    asm("mov.u32 %0, %%smid;" : "=r"(id));
    return id;
  }

  const DeviceTable& table_;
  const DeviceRun& run_;
  Work& work_;
  std::int64_t held_ = -1;  ///< delayed release: the tile whose semaphore is still held
};

}  // namespace stagger::gpu::cuda
