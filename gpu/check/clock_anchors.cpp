// Tested by tests/gpu/clock_anchors_test.cpp.

#include "gpu/check/clock_anchors.hpp"

#include "core/error.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

namespace stagger::gpu {
namespace {

constexpr std::int64_t kWindowNs = 20'000;  ///< of the readings that make a knot

struct Stamp {
  ClockReading TaskClocks::*from;
  std::int64_t TaskTimes::*to;
};
constexpr Stamp kStamps[] = {{&TaskClocks::compute_start, &TaskTimes::compute_start},
                             {&TaskClocks::compute_end, &TaskTimes::compute_end},
                             {&TaskClocks::turn, &TaskTimes::turn},
                             {&TaskClocks::reduce_end, &TaskTimes::reduce_end}};

/// Calls visit(sm, slot) for all slots of the lanes that were launched.
template <class Visit>
void for_slots(const Table& table, const std::vector<Sm>& lane_sms, Visit visit) {
  for (Lane lane{0}; lane.value < table.lanes(); ++lane) {
    const Sm sm = lane_sms[at(lane)];
    if (sm.value < 0) continue;
    for (std::int64_t slot = table.begin_of(lane); slot < table.end_of(lane); ++slot) {
      visit(sm, at(slot));
    }
  }
}

/// What an SM's clocks were read to be, ascending.
using Readings = std::map<Sm, std::vector<ClockReading>>;

Readings readings_of(const Table& table, const std::vector<Sm>& lane_sms,
                     const std::vector<TaskClocks>& clocks) {
  Readings readings;
  for_slots(table, lane_sms, [&](Sm sm, std::size_t slot) {
    for (const Stamp& stamp : kStamps) {
      const ClockReading& reading = clocks[slot].*stamp.from;
      if (reading.cycles >= 0) readings[sm].push_back(reading);
    }
  });
  for (auto& [sm, sm_readings] : readings) {
    std::sort(sm_readings.begin(), sm_readings.end(),
              [](const ClockReading& left, const ClockReading& right) {
                return left.cycles < right.cycles;
              });
  }
  return readings;
}

/// Returns the timer's step: what all its differences are multiples of.
std::int64_t timer_step(const Readings& readings) {
  std::int64_t step = 0;
  for (const auto& [sm, sm_readings] : readings) {
    for (const ClockReading& reading : sm_readings)
      step = std::gcd(step, reading.ns - sm_readings.front().ns);
  }
  return std::max<std::int64_t>(step, 1);
}

/// Counts times from the run's start, which it returns, instead of the global timer's own zero.
std::int64_t begin_at_zero(std::vector<TaskTimes>& times) {
  std::int64_t start = std::numeric_limits<std::int64_t>::max();
  for (const TaskTimes& task : times) {
    if (task.compute_start >= 0) start = std::min(start, task.compute_start);
  }
  for (TaskTimes& task : times) {
    for (const Stamp& stamp : kStamps) {
      if (task.*stamp.to >= 0) task.*stamp.to -= start;
    }
  }
  return start;
}

}  // namespace

SmClock::SmClock(std::span<const ClockReading> readings, std::int64_t step, double ns_per_cycle)
    : start_(readings.front()), step_(step), rate_(ns_per_cycle) {
  while (!readings.empty()) {
    const std::int64_t until = readings.front().ns + kWindowNs;
    Knot sum;
    std::size_t count = 0;
    for (; count < readings.size() && readings[count].ns < until; ++count) {
      sum.cycles += static_cast<double>(readings[count].cycles - start_.cycles);
      sum.ns += static_cast<double>(readings[count].ns - start_.ns);
    }
    const auto in_window = static_cast<double>(count);
    // The timer shows the begin of its step.
    knots_.push_back({.cycles = sum.cycles / in_window,
                      .ns = sum.ns / in_window + static_cast<double>(step) / 2});
    readings = readings.subspan(count);
  }
}

double SmClock::on_line(double cycles) const {
  if (knots_.size() == 1) return knots_[0].ns + rate_ * (cycles - knots_[0].cycles);
  // The segment that it is on, or the nearest.
  auto right = std::upper_bound(knots_.begin(), knots_.end(), cycles,
                                [](double value, const Knot& knot) { return value < knot.cycles; });
  right = std::clamp(right, knots_.begin() + 1, knots_.end() - 1);
  const Knot& from = *(right - 1);
  return from.ns + (cycles - from.cycles) * (right->ns - from.ns) / (right->cycles - from.cycles);
}

std::int64_t SmClock::ns(const ClockReading& reading) const {
  const double line = on_line(static_cast<double>(reading.cycles - start_.cycles));
  return std::clamp<std::int64_t>(start_.ns + std::llround(line), reading.ns,
                                  reading.ns + step_ - 1);
}

AnchoredTimes anchored_times(const Table& table, const std::vector<Sm>& lane_sms,
                             const std::vector<TaskClocks>& clocks, double ns_per_cycle) {
  if (clocks.empty()) return {};  // none were taken
  const Readings readings = readings_of(table, lane_sms, clocks);
  AnchoredTimes anchored{.times = std::vector<TaskTimes>(clocks.size()),
                         .error_ns = timer_step(readings)};
  std::vector<std::span<const ClockReading>> sms;
  for (const auto& [sm, sm_readings] : readings)
    sms.emplace_back(sm_readings);
  anchored.dip = clock_dip(sms);
  std::map<Sm, SmClock> sm_clocks;
  for (const auto& [sm, sm_readings] : readings)
    sm_clocks.emplace(sm, SmClock(sm_readings, anchored.error_ns, ns_per_cycle));
  for_slots(table, lane_sms, [&](Sm sm, std::size_t slot) {
    for (const Stamp& stamp : kStamps) {
      const ClockReading& reading = clocks[slot].*stamp.from;
      if (reading.cycles < 0) continue;
      anchored.times[slot].*stamp.to = sm_clocks.at(sm).ns(reading);
    }
  });
  anchored.start_ns = begin_at_zero(anchored.times);
  return anchored;
}

}  // namespace stagger::gpu
