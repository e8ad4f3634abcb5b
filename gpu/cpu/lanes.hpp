#pragma once

#include "core/index.hpp"
#include "gpu/check/backward.hpp"
#include "gpu/check/perturbation.hpp"
#include "gpu/cpu/semaphores.hpp"

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <vector>

namespace stagger::gpu::cpu {

/// Which lane a worker thread plays next. Every call may come from any thread.
///
/// Lanes are launched in order on as many SMs as there are; a lane's end frees its SM for the next
/// one. A launched lane is ready, played by one worker, or parked at a semaphore; a worker gives
/// its lane back with go_on, end or park after every task, and touches it no more. So no number of
/// workers is too small: a lane that waits holds an SM, not a thread.
class Lanes {
 public:
  /// `semaphores` must outlive this.
  Lanes(std::int32_t lanes, std::int32_t sms, std::size_t tiles, const Semaphores& semaphores,
        const BackwardOptions& options);

  struct Turn {
    Lane lane;
    Sm sm;
  };
  /// Takes the next lane to play; waits for one. nullopt when all have ended or the run has
  /// stopped: at once if nothing can move any more, or when a lane has been parked for the timeout.
  [[nodiscard]] std::optional<Turn> take();

  /// Gives a lane back whose next task may be played.
  void go_on(Lane lane);
  /// Gives a lane back that has no more tasks.
  void end(Lane lane);
  /// Gives a lane back that waits until the tile's semaphore shows `rank`.
  void park(Lane lane, std::size_t tile, std::int32_t rank);
  /// Makes the lanes ready whose turn has come. To be called after every release of a semaphore.
  void wake(std::size_t tile);

  /// Says how the run ended. To be asked when all workers have left, as lane_sms() is.
  [[nodiscard]] Outcome outcome() const { return outcome_; }
  [[nodiscard]] const std::vector<Sm>& lane_sms() const { return sms_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Deadline {
    Clock::time_point time;
    std::int32_t lane;
    std::int64_t ticket;  ///< void if the lane has been parked anew since
  };
  struct Parked {
    std::int32_t rank = 0;
    std::int32_t next = -1;    ///< the next lane at the same semaphore
    std::int64_t ticket = -1;  ///< -1 = not parked
  };

  void launch_next(Sm sm);
  void make_ready(std::int32_t lane);
  void stop(Outcome outcome);
  [[nodiscard]] Turn pick();
  [[nodiscard]] bool overdue();
  void wait(std::unique_lock<std::mutex>& lock);

  const Semaphores& semaphores_;
  const std::chrono::milliseconds timeout_;
  const Perturbation perturbation_;

  std::mutex mutex_;  ///< guards all below
  std::condition_variable changed_;
  std::deque<std::int32_t> ready_;
  std::vector<std::int32_t> first_parked_;  ///< by tile: a list through Parked::next, -1 = none
  std::vector<Parked> parked_;              ///< by lane
  std::deque<Deadline> deadlines_;          ///< ascending
  std::vector<Sm> sms_;                     ///< by lane, -1 = not launched
  std::int32_t launched_ = 0;
  std::int32_t ended_ = 0;
  std::int32_t playing_ = 0;  ///< workers that have a lane
  std::int64_t tickets_ = 0;
  std::uint64_t picks_ = 0;
  bool stopped_ = false;
  Outcome outcome_ = Outcome::finished;
};

}  // namespace stagger::gpu::cpu
