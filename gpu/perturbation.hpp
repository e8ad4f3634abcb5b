#pragma once

#include "gpu/philox.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <thread>

namespace stagger::gpu {

/// Random delays and choices, to shake out what depends on timing. Does nothing without a seed.
class Perturbation {
 public:
  explicit Perturbation(std::optional<std::uint64_t> seed) : seed_(seed) {}

  /// Sleeps for up to 64 microseconds, one time in four. `place` is one of a task's places.
  void delay(std::int64_t slot, std::uint32_t place) const {
    if (!seed_) return;
    const std::uint32_t word =
        random_words(*seed_, place, static_cast<std::uint64_t>(slot)).word[0];
    if (word % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(word / 4 % 64));
  }

  /// One of `count` candidates; the first without a seed. `step` numbers the choices.
  [[nodiscard]] std::size_t pick(std::size_t count, std::uint64_t step) const {
    constexpr std::uint32_t kChoices = 1000;  // a stream apart from the delays'
    return seed_ ? random_words(*seed_, kChoices, step).word[0] % count : 0;
  }

 private:
  std::optional<std::uint64_t> seed_;
};

}  // namespace stagger::gpu
