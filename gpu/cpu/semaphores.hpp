#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

namespace stagger::gpu::cpu {

/// A semaphore for every dQ tile, which shows the rank whose turn it is, starting at 0. While the
/// holder reduces it shows the complement of that rank, so that two tasks of one rank, as a wrong
/// table may have them, hang instead of racing.
class Semaphores {
 public:
  explicit Semaphores(std::size_t tiles) : values_(tiles) {}

  /// Takes the turn if it is `rank`'s. Acquires what the rank before released.
  [[nodiscard]] bool try_acquire(std::size_t tile, std::int32_t rank) {
    return rank >= 0 && values_[tile].compare_exchange_strong(
                            rank, ~rank, std::memory_order_acquire, std::memory_order_relaxed);
  }

  /// Takes whichever turn it is, as soon as nobody holds the tile. Holders never wait themselves.
  void acquire_any(std::size_t tile) {
    while (!try_acquire(tile, value(tile)))
      std::this_thread::yield();
  }

  /// Gives the turn to the next rank. Requires that the caller holds the tile.
  void release(std::size_t tile) {
    const std::int32_t held = values_[tile].load(std::memory_order_relaxed);
    values_[tile].store(~held + 1, std::memory_order_release);
  }

  /// Returns the rank whose turn it is, or that of the task which holds the tile.
  [[nodiscard]] std::int32_t value(std::size_t tile) const {
    const std::int32_t shown = values_[tile].load(std::memory_order_relaxed);
    return shown < 0 ? ~shown : shown;
  }
  /// Whether rank `rank` could take its turn now.
  [[nodiscard]] bool shows(std::size_t tile, std::int32_t rank) const {
    return values_[tile].load(std::memory_order_relaxed) == rank;
  }

 private:
  std::vector<std::atomic<std::int32_t>> values_;  ///< by (head, q)
};

}  // namespace stagger::gpu::cpu
