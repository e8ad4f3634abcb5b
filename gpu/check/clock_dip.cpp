// Tested by tests/gpu/clock_dip_test.cpp.

#include "gpu/check/clock_dip.hpp"

#include "gpu/check/clock_anchors.hpp"

#include <algorithm>
#include <cmath>

namespace stagger::gpu {
namespace {

constexpr std::int64_t kSteadyFromNs = 250'000;
constexpr std::int64_t kSteadyUntilNs = 650'000;  ///< later the clock may fall for other reasons
constexpr std::int64_t kLeastSteadyNs = 100'000;

/// What an SM lost, and when: `moment` is the sum of losses times when they were.
struct Loss {
  double ns = 0;
  double moment = 0;
};

/// Adds what an SM lost until its clock was steady; false if its readings do not say.
bool add_loss(std::span<const ClockReading> readings, Loss& loss) {
  const auto from = [&](std::int64_t ns) {
    return std::ranges::find_if(readings, [&](const ClockReading& reading) {
      return reading.ns - readings.front().ns >= ns;
    });
  };
  const auto steady = from(kSteadyFromNs);
  if (steady == readings.end()) return false;
  const ClockReading& last = *(from(kSteadyUntilNs) - 1);
  if (last.ns - steady->ns < kLeastSteadyNs || last.cycles <= steady->cycles) return false;
  const double ns_per_cycle =
      static_cast<double>(last.ns - steady->ns) / static_cast<double>(last.cycles - steady->cycles);
  for (auto reading = readings.begin(); reading != steady; ++reading) {
    const ClockReading& next = reading[1];
    const auto ns = static_cast<double>(next.ns - reading->ns);
    const double lost = ns - static_cast<double>(next.cycles - reading->cycles) * ns_per_cycle;
    loss.ns += lost;
    loss.moment += lost * (static_cast<double>(reading->ns - readings.front().ns) + ns / 2);
  }
  return true;
}

}  // namespace

ClockDip clock_dip(const std::vector<std::span<const ClockReading>>& sms) {
  Loss loss;
  int known = 0;
  for (const std::span<const ClockReading> readings : sms)
    known += add_loss(readings, loss) ? 1 : 0;
  if (known == 0) return {};
  if (loss.ns <= 0) return {.known = true};
  // Of a dip that is equally deep all the time the mean moment of loss is its middle.
  return {.ns = std::clamp<std::int64_t>(std::llround(2 * loss.moment / loss.ns), 0, kSteadyFromNs),
          .lost_ns = std::llround(loss.ns / known),
          .known = true};
}

}  // namespace stagger::gpu
