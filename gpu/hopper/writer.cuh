#pragma once

// A dQ writer of the hopper kernel: waits for a step's turn, adds its dQ in L2 and passes the turn
// on. The rules of the hand-over are in gpu/hopper/README.md, and tests/gpu/hand_over.py looks for
// them.

#include "gpu/cuda/lanes.cuh"
#include "gpu/hopper/shared.cuh"

namespace stagger::gpu::hopper {

/// One thread of a writer warp: bulk copies complete for the thread that asked for them.
template <class T, int kHeadDim, int kStepQ>
class Writer {
 public:
  using Shared = SharedMemory<T, kHeadDim, kStepQ>;

  __device__ Writer(const cuda::DeviceTable& table, const cuda::DeviceRun& run,
                    const Parameters& all, Shared& shared)
      : table_(table), run_(run), all_(all), shared_(shared) {}

  /// Plays every `writers`-th step from the CTA's `first`. Two writers take turns: while one waits
  /// until its additions are performed, the other has the next step's turn and dQ.
  __device__ void play(int first, int writers) {
    for (std::uint32_t number = first;; number += writers) {
      const std::uint32_t place = buffer_of<Shared::kSteps>(number);
      shared_.step_full[place].wait(parity_of<Shared::kSteps>(number));
      const Step step = shared_.steps[place];
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

  /// Returns the place of a step's semaphore and sums among those of all.
  [[nodiscard]] __device__ std::int64_t place_of(const Step& step) const {
    return (std::int64_t{step.tile} << all_.log2_steps) + step.marks.step;
  }

  /// Waits for a step's turn, before its dQ is there: a turn that has come costs nothing then.
  /// false if the run has stopped, or reduces nothing.
  __device__ bool take_turn(const Step& step) {
    if (run_.mode == Mode::no_reduce) return false;
    if (step.marks.begins_task) delay(run_, step.index, 1);
    if (run_.mode == Mode::atomic ||
        cuda::acquire(run_.locks + place_of(step), step.rank, run_.stop, run_.timeout_ns)) {
      return true;
    }
    shared_.stopped = 1;
    return false;
  }

  /// Adds a step's dQ and passes its turn on; false, with dQ left where it is, if the run has
  /// stopped.
  __device__ bool write(const Step& step, std::uint32_t slot, std::uint32_t parity) {
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

  __device__ void add(const Step& step, std::int64_t place, int half) {
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

  /// Passes a turn on. Where release is delayed, what the task before holds goes now, with the end
  /// of the next one.
  __device__ void release(const Step& step, std::int64_t place) {
    if (!run_.delayed_release) {
      cuda::release_next(run_.locks + place);
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
      cuda::release_next(run_.locks + (std::int64_t{tile} << all_.log2_steps) + step);
  }

  const cuda::DeviceTable& table_;
  const cuda::DeviceRun& run_;
  const Parameters& all_;
  Shared& shared_;
  std::int32_t held_ = -1;  ///< delayed release: the tile whose semaphores are still held
};

}  // namespace stagger::gpu::hopper
