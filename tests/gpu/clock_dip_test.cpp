#include "gpu/check/clock_dip.hpp"

#include "gpu/check/clock_anchors.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace stagger::gpu {
namespace {

constexpr double kCyclesPerNs = 1.79;
constexpr std::int64_t kTimerStep = 32;  ///< ns, of the timer

/// An SM whose clock is slower by a part of it at first.
struct DippingSm {
  std::int64_t begins = 1'000'000'000;  ///< ns, of the run
  std::int64_t dips_for = 0;            ///< ns
  double by = 0;

  /// Readings some microseconds apart, for `length` ns.
  [[nodiscard]] std::vector<ClockReading> read(std::int64_t length, test::Random& random) const {
    std::vector<ClockReading> readings;
    for (std::int64_t ns = 0; ns < length; ns += random.between(500, 4'000)) {
      const auto in_dip = static_cast<double>(std::min(ns, dips_for));
      const double cycles = kCyclesPerNs * (static_cast<double>(ns) - by * in_dip);
      readings.push_back(
          {.ns = (begins + ns) / kTimerStep * kTimerStep, .cycles = std::llround(cycles)});
    }
    return readings;
  }
};

ClockDip dip_of(const std::vector<std::vector<ClockReading>>& sms) {
  return clock_dip({sms.begin(), sms.end()});
}

TEST_CASE("a dip is as long as it was, and loses what it did") {
  test::Random random(20'261'130);
  for (int round = 0; round < 50; ++round) {
    const std::int64_t dips_for = random.between(40'000, 200'000);
    const double by = static_cast<double>(random.between(10, 100)) / 1e3;
    std::vector<std::vector<ClockReading>> sms;
    for (int sm = 0; sm < 20; ++sm) {
      const DippingSm known{.begins = random.between(0, 9'999'999), .dips_for = dips_for, .by = by};
      sms.push_back(known.read(random.between(400'000, 900'000), random));
    }
    const ClockDip dip = dip_of(sms);
    CAPTURE(round, dips_for, by, dip.ns, dip.lost_ns);
    REQUIRE(dip.known);
    CHECK(std::abs(static_cast<double>(dip.lost_ns) - by * static_cast<double>(dips_for)) <= 40);
    CHECK(std::abs(dip.ns - dips_for) <= 4'000 + std::llround(200 / by));
  }
}

TEST_CASE("a steady clock loses nothing, and a short run does not tell") {
  test::Random random(7);
  const ClockDip steady = dip_of({DippingSm{}.read(600'000, random)});
  CHECK(steady.known);
  CHECK(steady.lost_ns <= 64);
  // A run that ends less than 100 us after its first quarter of a millisecond.
  CHECK(dip_of({DippingSm{}.read(340'000, random)}) == ClockDip{});
  CHECK(dip_of({DippingSm{}.read(2'000, random)}) == ClockDip{});
  CHECK(clock_dip({}) == ClockDip{});
  CHECK(dip_of({{}}) == ClockDip{});
  // One SM that was busy for long enough tells.
  const DippingSm known{.dips_for = 100'000, .by = 0.05};
  const ClockDip dip = dip_of({known.read(600'000, random), known.read(100'000, random)});
  CHECK(dip.known);
  CHECK(std::abs(dip.lost_ns - 5'000) <= 64);
}

TEST_CASE("a clock that is faster at first loses nothing") {
  test::Random random(8);
  const DippingSm faster{.dips_for = 100'000, .by = -0.05};
  CHECK(dip_of({faster.read(600'000, random)}) == ClockDip{.known = true});
}

}  // namespace
}  // namespace stagger::gpu
