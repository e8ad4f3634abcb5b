#include "gpu/check/clock_anchors.hpp"

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

constexpr std::int64_t kStep = 32;  ///< ns, of the timer

/// An SM whose clocks are known. Its rate is kRate, and from some time on another.
struct KnownSm {
  std::int64_t steps_at = INT64_MAX;  ///< ns since the epoch
  double rate_after = kRate;
  std::int64_t timer_step = kStep;
  std::int64_t counter = kCounter;

  /// Both clocks, some ns since the epoch.
  [[nodiscard]] ClockReading read(std::int64_t ns) const {
    const auto before = static_cast<double>(std::min(ns, steps_at));
    const double after = std::max(0.0, static_cast<double>(ns) - before);
    return {.ns = (kEpoch + ns) / timer_step * timer_step,
            .cycles = counter + std::llround(before / kRate + after / rate_after)};
  }
};

/// Times about `every` ns for `length` ns.
std::vector<std::int64_t> random_times(std::int64_t length, std::int64_t every,
                                       test::Random& random) {
  std::vector<std::int64_t> times;
  for (std::int64_t ns = 0; ns < length; ns += random.between(every / 2, every * 3 / 2))
    times.push_back(ns);
  return times;
}

/// Differences from the truth, in ns.
struct Errors {
  std::int64_t worst = 0;
  double mean = 0;
};
Errors errors_of(const KnownSm& sm, const std::vector<std::int64_t>& times) {
  std::vector<ClockReading> readings;
  for (const std::int64_t ns : times)
    readings.push_back(sm.read(ns));
  const SmClock clock(readings, sm.timer_step, kRate);
  Errors errors;
  for (std::size_t index = 0; index < times.size(); ++index) {
    const std::int64_t error = std::abs(clock.ns(readings[index]) - (kEpoch + times[index]));
    errors.worst = std::max(errors.worst, error);
    errors.mean += static_cast<double>(error) / static_cast<double>(times.size());
  }
  return errors;
}

TEST_CASE("readings of both clocks are finer than the timer's step") {
  std::int64_t cases = 0;
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    test::Random random(seed);
    const std::int64_t length = random.between(50'000, 2'000'000);
    const std::int64_t every = random.between(300, 2'000);
    CAPTURE(seed, length, every);
    const Errors errors = errors_of({}, random_times(length, every, random));
    CHECK(errors.worst < kStep);
    CHECK(errors.mean < 4);  // the timer alone has 16
    ++cases;
  }
  CHECK(cases == 60);
}

TEST_CASE("a coarse timer is resolved too") {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    test::Random random(seed);
    CAPTURE(seed);
    const Errors errors = errors_of({.timer_step = 1024}, random_times(1'000'000, 700, random));
    CHECK(errors.worst < 1024);
    CHECK(errors.mean < 100);
  }
}

TEST_CASE("a change of the clock's rate is no more than a step") {
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    test::Random random(seed);
    const bool slower = random.chance(2);
    const KnownSm sm{.steps_at = random.between(400'000, 600'000),
                     .rate_after = slower ? kRate * 1.5 : kRate / 1.5};
    CAPTURE(seed, slower, sm.steps_at);
    const Errors errors = errors_of(sm, random_times(1'000'000, 700, random));
    CHECK(errors.worst < kStep);
    CHECK(errors.mean < 5);
  }
}

TEST_CASE("few readings leave the timer's own resolution") {
  test::Random random(1);
  CHECK(errors_of({}, {1'000}).worst < kStep);
  CHECK(errors_of({}, {1'000, 9'000}).worst < kStep);
  CHECK(errors_of({}, random_times(5'000'000, 300'000, random)).worst < kStep);
}

TEST_CASE("a time is never outside of the step that the timer showed") {
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    test::Random random(seed);
    // The rate changes wildly, so that lines through means are far from the truth.
    const KnownSm sm{.steps_at = random.between(1'000, 40'000),
                     .rate_after = random.chance(2) ? kRate * 4 : kRate / 4};
    std::vector<ClockReading> readings;
    for (const std::int64_t ns : random_times(60'000, 100, random))
      readings.push_back(sm.read(ns));
    const SmClock clock(readings, kStep, kRate);
    std::int64_t at_begin = 0;
    std::int64_t at_end = 0;
    for (const ClockReading& reading : readings) {
      const std::int64_t ns = clock.ns(reading);
      REQUIRE(ns >= reading.ns);
      REQUIRE(ns < reading.ns + kStep);
      if (ns == reading.ns) ++at_begin;
      if (ns == reading.ns + kStep - 1) ++at_end;
    }
    CHECK(at_begin + at_end > 10);  // the step did hold some back
  }
}

TEST_CASE("readings too close together for a line follow the rate that is given") {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    test::Random random(seed);
    CAPTURE(seed);
    const std::vector<std::int64_t> times = random_times(19'000, 60, random);
    CHECK(errors_of({}, times).mean < 2);
    // A rate that is not the SM's is wrong by up to a step.
    std::vector<ClockReading> readings;
    for (const std::int64_t ns : times)
      readings.push_back(KnownSm{}.read(ns));
    const SmClock clock(readings, kStep, kRate * 1.1);
    double mean = 0;
    for (std::size_t index = 0; index < times.size(); ++index) {
      mean += static_cast<double>(std::abs(clock.ns(readings[index]) - (kEpoch + times[index]))) /
              static_cast<double>(times.size());
    }
    CHECK(mean > 8);
  }
}

TEST_CASE("lines follow a rate that the guess does not know, from 20 us to 20 us") {
  for (const double off : {0.8, 1.3}) {
    const KnownSm sm{.steps_at = 0, .rate_after = kRate * off};
    test::Random random(5);
    const Errors errors = errors_of(sm, random_times(400'000, 300, random));
    CHECK(errors.mean < 4);
  }
}

TEST_CASE("a clock never runs backwards") {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    test::Random random(seed);
    const KnownSm sm{.steps_at = 60'000, .rate_after = kRate * 1.5};
    std::vector<ClockReading> readings;
    for (const std::int64_t ns : random_times(120'000, 40, random))
      readings.push_back(sm.read(ns));
    const SmClock clock(readings, kStep, kRate);
    for (std::size_t index = 1; index < readings.size(); ++index)
      REQUIRE(clock.ns(readings[index]) >= clock.ns(readings[index - 1]));
  }
}

/// A run of two SMs with counters of their own: by slot, one task after the other, 3 us each, the
/// SMs in turns.
struct Relay {
  Table table = schedules::build(schedules::select("ascending"),
                                 make_problem(make_mask("full"), {2, 60}, {}, 1, 2));
  std::vector<Sm> lane_sms{Sm{1}, Sm{0}};
  std::vector<TaskClocks> clocks;

  explicit Relay(const std::vector<KnownSm>& sms) {
    for (std::int64_t lane = 0; lane < 2; ++lane) {
      for (std::int64_t task = 0; task < 60; ++task) {
        const KnownSm& sm = sms[static_cast<std::size_t>(lane)];
        const std::int64_t start = 500 + (2 * task + lane) * 3'000;
        clocks.push_back({.compute_start = sm.read(start),
                          .compute_end = sm.read(start + 1'007),
                          .turn = sm.read(start + 1'501),
                          .reduce_end = sm.read(start + 3'000)});
      }
    }
  }
};

TEST_CASE("SMs with different counters and rates have one time") {
  const std::vector<KnownSm> sms{{.counter = 5}, {.steps_at = 0, .rate_after = kRate * 1.2}};
  const Relay relay(sms);
  const AnchoredTimes anchored = anchored_times(relay.table, relay.lane_sms, relay.clocks, kRate);
  REQUIRE(anchored.times.size() == 120);
  CHECK(anchored.error_ns == kStep);
  CHECK(anchored.times.front().compute_start == 0);
  for (std::size_t task = 0; task < 120; ++task) {
    const auto start = static_cast<std::int64_t>((task < 60 ? 2 * task : 2 * (task - 60) + 1));
    const TaskTimes& times = anchored.times[task];
    CAPTURE(task);
    CHECK(std::abs(times.compute_start - start * 3'000) <= kStep);
    CHECK(std::abs(times.turn - times.compute_start - 1'501) <= kStep);
    CHECK(std::abs(times.reduce_end - (start + 1) * 3'000) <= kStep);
  }
}

TEST_CASE("a run's time begins with its first compute phase, wherever that is in the table") {
  const std::vector<KnownSm> sms{{}, {.counter = 77}};
  Relay relay(sms);
  // Lane 1 begins 2 us before lane 0.
  for (std::size_t slot = 0; slot < 60; ++slot) {
    const auto task = static_cast<std::int64_t>(slot);
    const std::int64_t start = 500 + 2 * task * 3'000 + 5'000;
    relay.clocks[slot].compute_start = sms[0].read(start);
    relay.clocks[slot].compute_end = sms[0].read(start + 100);
    relay.clocks[slot].turn = sms[0].read(start + 200);
    relay.clocks[slot].reduce_end = sms[0].read(start + 300);
  }
  const AnchoredTimes anchored = anchored_times(relay.table, relay.lane_sms, relay.clocks, kRate);
  CHECK(anchored.times[60].compute_start == 0);
  CHECK(std::abs(anchored.times[0].compute_start - 2'000) <= kStep);
  for (const TaskTimes& times : anchored.times) {
    CHECK(times.compute_start >= 0);
    CHECK(times.compute_end > times.compute_start);
    CHECK(times.turn > times.compute_end);
    CHECK(times.reduce_end > times.turn);
  }
}

TEST_CASE("the timer's step is what all differences are multiples of, and 1 of a single time") {
  for (const std::int64_t step : {1, 32, 1000, 1024}) {
    const std::vector<KnownSm> sms{{.timer_step = step}, {.timer_step = step}};
    const Relay relay(sms);
    CHECK(anchored_times(relay.table, relay.lane_sms, relay.clocks, kRate).error_ns == step);
  }
  std::vector<TaskClocks> one(120);
  one[0].compute_start = {.ns = 640, .cycles = 9};
  const AnchoredTimes anchored = anchored_times(Relay({{}, {}}).table, {Sm{0}, Sm{1}}, one, kRate);
  CHECK(anchored.error_ns == 1);
  CHECK(anchored.times[0].compute_start == 0);
}

TEST_CASE("clocks of a lane that was not launched are nobody's") {
  const std::vector<KnownSm> sms{{}, {.timer_step = 1}};  // would make the step 1
  const Relay relay(sms);
  const AnchoredTimes anchored = anchored_times(relay.table, {Sm{0}, Sm{-1}}, relay.clocks, kRate);
  CHECK(anchored.error_ns == kStep);
  CHECK(anchored.times[0].compute_start == 0);
  for (std::size_t slot = 60; slot < 120; ++slot)
    CHECK(anchored.times[slot].compute_start == -1);
}

TEST_CASE("what was not stamped stays without a time") {
  const std::vector<KnownSm> sms{{}, {.counter = 77}};
  Relay relay(sms);
  for (std::size_t slot = 30; slot < 60; ++slot)
    relay.clocks[slot] = {};
  relay.clocks[29].turn = {};
  relay.clocks[29].reduce_end = {};
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
