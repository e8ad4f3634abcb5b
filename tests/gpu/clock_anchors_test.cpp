#include "gpu/clock_anchors.hpp"

#include "schedules/schedule.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace stagger::gpu {
namespace {

constexpr double kRate = 1 / 1.755;                         ///< ns a cycle
constexpr std::int64_t kEpoch = 1'750'000'000'000'000'000;  ///< ns: a timer that has run for long
constexpr std::int64_t kCounter = 9'000'000'000'000;        ///< cycles at the epoch

/// An SM whose clocks are known. Its rate is kRate, and from some time on another.
struct KnownSm {
  std::int64_t steps_at = INT64_MAX;  ///< ns since the epoch
  double rate_after = kRate;
  std::int64_t timer_step = 32;
  std::int64_t counter = kCounter;

  /// ns since the epoch to cycles.
  [[nodiscard]] std::int64_t cycles(double ns) const {
    const double before = std::min(ns, static_cast<double>(steps_at));
    const double after = std::max(0.0, ns - before);
    return counter + std::llround(before / kRate + after / rate_after);
  }
  [[nodiscard]] ClockAnchor anchor(std::int64_t ns, std::int64_t held_up) const {
    return {.ns = (kEpoch + ns) / timer_step * timer_step,
            .cycles = cycles(static_cast<double>(ns + held_up))};
  }
};

/// Anchors about `every` ns for `length` ns. One thread in `held_up` is held up by up to 3 us
/// between its readings; the others by some ns.
std::vector<ClockAnchor> anchors_of(const KnownSm& sm, std::int64_t length, std::int64_t every,
                                    int held_up, test::Random& random) {
  std::vector<ClockAnchor> anchors;
  for (std::int64_t ns = 0; ns < length; ns += random.between(every / 2, every * 3 / 2)) {
    const bool is_late = held_up > 0 && random.chance(held_up);
    anchors.push_back(sm.anchor(ns, is_late ? random.between(10, 3000) : random.between(4, 8)));
  }
  random.shuffle(anchors);
  return anchors;
}

/// Differences from the truth, in ns, at times from `begin` to `end`.
struct Errors {
  std::int64_t worst = 0;
  double mean = 0;
};
Errors errors_of(const SmClock& clock, const KnownSm& sm, std::int64_t begin, std::int64_t end) {
  Errors errors;
  std::int64_t count = 0;
  for (std::int64_t ns = begin; ns <= end; ns += 97) {
    const std::int64_t read = clock.ns(sm.cycles(static_cast<double>(ns)));
    const std::int64_t error = std::abs(read - (kEpoch + ns));
    errors.worst = std::max(errors.worst, error);
    errors.mean += static_cast<double>(error);
    ++count;
  }
  errors.mean /= static_cast<double>(count);
  return errors;
}

std::int64_t worst(const SmClock& clock, const KnownSm& sm, std::int64_t begin, std::int64_t end) {
  return errors_of(clock, sm, begin, end).worst;
}

TEST_CASE("an SM's cycles are the timer's ns to a part of the timer's step") {
  std::int64_t cases = 0;
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    test::Random random(seed);
    const KnownSm sm{.rate_after = kRate};
    const std::int64_t length = random.between(50'000, 2'000'000);
    // A tenth of what a window has at the least, and threads that are held up.
    const std::int64_t every = random.between(500, 2'000);
    const SmClock clock(anchors_of(sm, length, every, 20, random), 1);
    CAPTURE(seed, length, every);
    CHECK(worst(clock, sm, -5'000, length + 5'000) <= 32);
    CHECK(errors_of(clock, sm, 0, length).mean <= 12);
    ++cases;
  }
  CHECK(cases == 60);
}

TEST_CASE("a coarse timer is resolved too") {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    test::Random random(seed);
    const KnownSm sm{.timer_step = 1024};
    const SmClock clock(anchors_of(sm, 1'000'000, 700, 0, random), 1);
    CAPTURE(seed);
    CHECK(worst(clock, sm, 0, 1'000'000) <= 600);
  }
}

TEST_CASE("a change of the clock's rate is followed") {
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    test::Random random(seed);
    const bool slower = random.chance(2);
    const KnownSm sm{.steps_at = random.between(400'000, 600'000),
                     .rate_after = slower ? kRate * 1.1 : kRate / 1.1};
    const SmClock clock(anchors_of(sm, 1'000'000, 1'500, 20, random), 1);
    CAPTURE(seed, slower, sm.steps_at);
    CHECK(worst(clock, sm, 0, sm.steps_at - 40'000) <= 32);
    CHECK(worst(clock, sm, sm.steps_at + 40'000, 1'000'000) <= 32);
    // 10 % of a quarter of a window, or two.
    CHECK(worst(clock, sm, sm.steps_at - 40'000, sm.steps_at + 40'000) <= 700);
  }
}

TEST_CASE("few anchors leave the timer's own resolution") {
  const KnownSm sm;
  SECTION("one, and the rate of others") {
    const SmClock clock({sm.anchor(1'000, 5)}, kRate);
    CHECK(worst(clock, sm, 0, 10'000) <= 40);
  }
  SECTION("far apart: a slow kernel") {
    test::Random random(1);
    const SmClock clock(anchors_of(sm, 5'000'000, 300'000, 0, random), 1);
    CHECK(worst(clock, sm, 0, 5'000'000) <= 45);
  }
  SECTION("two within a window") {
    const SmClock clock({sm.anchor(9'000, 5), sm.anchor(0, 5)}, kRate);
    CHECK(worst(clock, sm, 0, 12'000) <= 45);
  }
}

TEST_CASE("a clock never runs backwards") {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    test::Random random(seed);
    const KnownSm sm{.steps_at = 60'000, .rate_after = kRate * 1.5};
    const SmClock clock(anchors_of(sm, 120'000, 4'000, 3, random), kRate);
    std::int64_t before = INT64_MIN;
    for (std::int64_t cycle = -50'000; cycle < 400'000; cycle += 7) {
      const std::int64_t ns = clock.ns(kCounter + cycle);
      REQUIRE(ns >= before);
      before = ns;
    }
  }
}

/// A run of two SMs with counters of their own: by slot, one task after the other, 3 us each, the
/// SMs in turns.
struct Relay {
  Table table = schedules::build(schedules::select("ascending"),
                                 make_problem(make_mask("full"), {2, 60}, {}, 1, 2));
  std::vector<Sm> lane_sms{Sm{1}, Sm{0}};
  std::vector<TaskClocks> clocks;

  explicit Relay(const std::vector<KnownSm>& sms, int held_up = 0) {
    test::Random random(7);
    for (std::int64_t lane = 0; lane < 2; ++lane) {
      for (std::int64_t task = 0; task < 60; ++task) {
        const KnownSm& sm = sms[static_cast<std::size_t>(lane)];
        const std::int64_t start = 500 + (2 * task + lane) * 3'000;
        const auto at = [&](std::int64_t ns) { return sm.cycles(static_cast<double>(start + ns)); };
        const bool is_late = held_up > 0 && random.chance(held_up);
        clocks.push_back({.cycles = {.compute_start = at(0),
                                     .compute_end = at(1'000),
                                     .turn = at(1'500),
                                     .reduce_end = at(3'000)},
                          .anchor = sm.anchor(start - 100, is_late ? 2'000 : 5)});
      }
    }
  }
};

TEST_CASE("SMs with different counters and rates have one time") {
  const std::vector<KnownSm> sms{{.counter = 5}, {.steps_at = 0, .rate_after = kRate * 1.2}};
  const Relay relay(sms);
  const AnchoredTimes anchored = anchored_times(relay.table, relay.lane_sms, relay.clocks, kRate);
  REQUIRE(anchored.times.size() == 120);
  CHECK(anchored.error_ns <= 40);
  CHECK(anchored.times.front().compute_start == 0);
  for (std::size_t task = 0; task < 120; ++task) {
    const auto start = static_cast<std::int64_t>((task < 60 ? 2 * task : 2 * (task - 60) + 1));
    const TaskTimes& times = anchored.times[task];
    CAPTURE(task);
    CHECK(std::abs(times.compute_start - start * 3'000) <= 48);
    CHECK(std::abs(times.turn - times.compute_start - 1'500) <= 8);
    CHECK(std::abs(times.reduce_end - (start + 1) * 3'000) <= 48);
  }
}

TEST_CASE("a thread that was held up between its readings is no error") {
  const std::vector<KnownSm> sms{{}, {.counter = 77}};
  CHECK(anchored_times(Relay(sms).table, {Sm{0}, Sm{1}}, Relay(sms, 20).clocks, kRate).error_ns <=
        40);
}

TEST_CASE("a change of rate within a window is in the error") {
  const std::vector<KnownSm> sms{{.steps_at = 170'000, .rate_after = kRate * 1.2}, {.counter = 77}};
  const Relay relay(sms);
  const std::int64_t error =
      anchored_times(relay.table, {Sm{0}, Sm{1}}, relay.clocks, kRate).error_ns;
  CHECK(error > 100);
  CHECK(error < 1'100);
}

TEST_CASE("what was not stamped stays without a time") {
  const std::vector<KnownSm> sms{{}, {.counter = 77}};
  Relay relay(sms);
  for (std::size_t slot = 30; slot < 60; ++slot)
    relay.clocks[slot] = {};
  relay.clocks[29].cycles.turn = -1;
  relay.clocks[29].cycles.reduce_end = -1;
  for (std::size_t slot = 60; slot < 120; ++slot)
    relay.clocks[slot] = {};
  const AnchoredTimes anchored = anchored_times(relay.table, {Sm{0}, Sm{-1}}, relay.clocks, kRate);
  CHECK(anchored.times[29].compute_end > 0);
  CHECK(anchored.times[29].turn == -1);
  CHECK(anchored.times[29].reduce_end == -1);
  CHECK(anchored.times[30].compute_start == -1);
  CHECK(anchored.times[60].compute_start == -1);
  CHECK(anchored_times(relay.table, {Sm{0}, Sm{-1}}, {}, kRate).times.empty());
}

}  // namespace
}  // namespace stagger::gpu
