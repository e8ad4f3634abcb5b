#pragma once

#include "gpu/numerics/host_device.hpp"
#include "gpu/numerics/philox.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace stagger::gpu {

/// Returns how long a perturbed run is delayed at one of a task's places: up to 63 microseconds,
/// one time in four. The same on every device.
[[nodiscard]] STAGGER_HOST_DEVICE constexpr std::int64_t delay_us(std::uint64_t seed,
                                                                  std::int64_t slot,
                                                                  std::uint32_t place) {
  const std::uint32_t word = random_words(seed, place, static_cast<std::uint64_t>(slot)).word[0];
  return word % 4 == 0 ? word / 4 % 64 : 0;
}

/// Random delays and choices, to shake out what depends on timing. Does nothing without a seed.
class Perturbation {
 public:
  explicit Perturbation(std::optional<std::uint64_t> seed) : seed_(seed) {}

  /// Sleeps for delay_us().
  void delay(std::int64_t slot, std::uint32_t place) const {
    if (!seed_) return;
    const std::int64_t us = delay_us(*seed_, slot, place);
    if (us > 0) std::this_thread::sleep_for(std::chrono::microseconds(us));
  }

  /// Picks one of `count` candidates; the first without a seed. `step` numbers the choices.
  [[nodiscard]] std::size_t pick(std::size_t count, std::uint64_t step) const {
    constexpr std::uint32_t kChoices = 1000;  // a stream apart from the delays'
    return seed_ ? random_words(*seed_, kChoices, step).word[0] % count : 0;
  }

  /// Lists 0 to count - 1, shuffled with a seed.
  [[nodiscard]] std::vector<std::int32_t> order(std::int32_t count) const {
    std::vector<std::int32_t> places(static_cast<std::size_t>(count));
    std::iota(places.begin(), places.end(), 0);
    for (std::size_t left = places.size(); left > 1; --left)
      std::swap(places[left - 1], places[left - 1 - pick(left, left)]);
    return places;
  }

 private:
  std::optional<std::uint64_t> seed_;
};

}  // namespace stagger::gpu
