// Tested by tests/gpu/clock_anchors_test.cpp.
//
//      ns            . x    x: an anchor; the timer shows the last step that it made
//       |         .x        .: the true line
//       |      .
//       |   .x      x
//       | .    x
//       |x  x
//       +------------------ cycles
//
// The points of the upper hull are the anchors that were read just after a step. Of the hull's
// edges the one above a window's middle is the knot's line: every other line with all points below
// is higher there. The true line is such a line, so that the knot is never too late.

#include "gpu/clock_anchors.hpp"

#include "core/error.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

namespace stagger::gpu {
namespace {

constexpr std::int64_t kWindowNs = 20'000;  ///< of the anchors that make a knot
constexpr std::int64_t kTellingNs = 1'000;  ///< anchors closer together tell no rate
constexpr std::int64_t kStepNs = 32;        ///< of the global timer, on an H200

std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

/// Whether the second point is on or below the line from the first to the third.
bool is_below(const ClockAnchor& first, const ClockAnchor& second, const ClockAnchor& third) {
  return (second.ns - first.ns) * (third.cycles - first.cycles) <=
         (third.ns - first.ns) * (second.cycles - first.cycles);
}

/// From left to right.
std::vector<ClockAnchor> upper_hull(std::span<const ClockAnchor> anchors) {
  std::vector<ClockAnchor> hull;
  for (const ClockAnchor& anchor : anchors) {
    while (hull.size() >= 2 && is_below(hull[hull.size() - 2], hull.back(), anchor))
      hull.pop_back();
    hull.push_back(anchor);
  }
  return hull;
}

/// ns a cycle from the first to the last.
double mean_rate(const ClockAnchor& first, const ClockAnchor& last) {
  return static_cast<double>(last.ns - first.ns) / static_cast<double>(last.cycles - first.cycles);
}

bool precedes(const ClockAnchor& left, const ClockAnchor& right) {
  return left.cycles < right.cycles;
}

/// By SM, by cycles.
using Anchors = std::map<Sm, std::vector<ClockAnchor>>;

Anchors anchors_of(const Table& table, const std::vector<Sm>& lane_sms,
                   const std::vector<TaskClocks>& clocks) {
  Anchors anchors;
  for (Lane lane{0}; lane.value < table.lanes(); ++lane) {
    for (std::int64_t slot = table.lane_begin[at(lane.value)];
         slot < table.lane_begin[at(lane.value) + 1]; ++slot) {
      const ClockAnchor& anchor = clocks[at(slot)].anchor;
      if (anchor.ns >= 0) anchors[lane_sms[at(lane.value)]].push_back(anchor);
    }
  }
  for (auto& [sm, of] : anchors)
    std::sort(of.begin(), of.end(), precedes);
  return anchors;
}

/// That of the SM whose anchors are the furthest apart; all SMs have one frequency.
double common_rate(const Anchors& anchors, double otherwise) {
  std::int64_t longest = kTellingNs;
  double rate = otherwise;
  for (const auto& [sm, of] : anchors) {
    if (of.back().ns - of.front().ns < longest) continue;
    longest = of.back().ns - of.front().ns;
    rate = mean_rate(of.front(), of.back());
  }
  return rate;
}

/// As AnchoredTimes::error_ns, of one SM. The nearest of some neighbours, as the others' threads
/// may have been held up.
std::int64_t error_of(const SmClock& clock, const std::vector<ClockAnchor>& anchors) {
  constexpr std::ptrdiff_t kNeighbours = 4;
  std::vector<std::int64_t> off;
  off.reserve(anchors.size());
  for (const ClockAnchor& anchor : anchors)
    off.push_back(std::abs(clock.ns(anchor.cycles) - anchor.ns));
  std::int64_t most = 0;
  for (auto first = off.begin(); off.end() - first >= kNeighbours; ++first)
    most = std::max(most, *std::min_element(first, first + kNeighbours));
  return most;
}

constexpr std::int64_t TaskTimes::*kStamps[] = {&TaskTimes::compute_start, &TaskTimes::compute_end,
                                                &TaskTimes::turn, &TaskTimes::reduce_end};

/// From the global timer's own zero to the run's start.
void begin_at_zero(std::vector<TaskTimes>& times) {
  std::int64_t start = std::numeric_limits<std::int64_t>::max();
  for (const TaskTimes& task : times) {
    if (task.compute_start >= 0) start = std::min(start, task.compute_start);
  }
  for (TaskTimes& task : times) {
    for (const auto stamp : kStamps) {
      if (task.*stamp >= 0) task.*stamp -= start;
    }
  }
}

}  // namespace

SmClock::SmClock(std::vector<ClockAnchor> anchors, double ns_per_cycle)
    : rate_before_(ns_per_cycle), rate_after_(ns_per_cycle) {
  STAGGER_EXPECTS(!anchors.empty());
  std::sort(anchors.begin(), anchors.end(), precedes);
  base_ = anchors.front().ns;
  add_knots(anchors);
  set_outer_rates();
}

SmClock::Knot SmClock::knot_of(std::span<const ClockAnchor> anchors) const {
  const std::vector<ClockAnchor> hull = upper_hull(anchors);
  const std::int64_t first = anchors.front().cycles;
  const std::int64_t middle = first + (anchors.back().cycles - first) / 2;
  const auto right = std::find_if(
      hull.begin(), hull.end(), [&](const ClockAnchor& anchor) { return anchor.cycles > middle; });
  const auto since_base = [&](const ClockAnchor& anchor) {
    return static_cast<double>(anchor.ns - base_);
  };
  if (right == hull.end()) return {.cycles = middle, .ns = since_base(hull.back())};
  const ClockAnchor& left = *(right - 1);
  const double rate = mean_rate(left, *right);
  return {.cycles = middle,
          .ns = since_base(left) + rate * static_cast<double>(middle - left.cycles)};
}

/// One for each of equal parts of the anchors' time in which there are some.
void SmClock::add_knots(std::span<const ClockAnchor> anchors) {
  const std::int64_t extent = anchors.back().ns - base_;
  const std::int64_t windows = std::max<std::int64_t>(1, extent / kWindowNs);
  for (std::int64_t window = 1; window < windows; ++window) {
    const std::int64_t until = base_ + extent * window / windows;
    std::size_t count = 0;
    while (anchors[count].ns < until)
      ++count;
    if (count > 0) knots_.push_back(knot_of(anchors.first(count)));
    anchors = anchors.subspan(count);
  }
  knots_.push_back(knot_of(anchors));
}

/// From knots that are far apart, as neighbours need not be. If there are none, the guess stays.
void SmClock::set_outer_rates() {
  const Knot& first = knots_.front();
  const Knot& last = knots_.back();
  if (last.ns - first.ns < kWindowNs) return;
  const auto rate = [](const Knot& left, const Knot& right) {
    return (right.ns - left.ns) / static_cast<double>(right.cycles - left.cycles);
  };
  rate_before_ = rate(first, *std::find_if(knots_.begin(), knots_.end(), [&](const Knot& knot) {
                        return knot.ns - first.ns >= kWindowNs;
                      }));
  rate_after_ =
      rate(*std::find_if(knots_.rbegin(), knots_.rend(),
                         [&](const Knot& knot) { return last.ns - knot.ns >= kWindowNs; }),
           last);
}

std::int64_t SmClock::ns(std::int64_t cycles) const {
  const auto right =
      std::upper_bound(knots_.begin(), knots_.end(), cycles,
                       [](std::int64_t value, const Knot& knot) { return value < knot.cycles; });
  const Knot& from = right == knots_.begin() ? *right : *(right - 1);
  double rate = rate_before_;
  if (right == knots_.end()) {
    rate = rate_after_;
  } else if (right != knots_.begin()) {
    rate = (right->ns - from.ns) / static_cast<double>(right->cycles - from.cycles);
  }
  return base_ + std::llround(from.ns + rate * static_cast<double>(cycles - from.cycles));
}

AnchoredTimes anchored_times(const Table& table, const std::vector<Sm>& lane_sms,
                             const std::vector<TaskClocks>& clocks, double ns_per_cycle) {
  if (clocks.empty()) return {};  // none were taken
  AnchoredTimes anchored{.times = std::vector<TaskTimes>(clocks.size()), .error_ns = kStepNs};
  const Anchors anchors = anchors_of(table, lane_sms, clocks);
  const double rate = common_rate(anchors, ns_per_cycle);
  std::map<Sm, SmClock> sm_clocks;
  for (const auto& [sm, of] : anchors) {
    const SmClock& clock = sm_clocks.emplace(sm, SmClock(of, rate)).first->second;
    anchored.error_ns = std::max(anchored.error_ns, error_of(clock, of));
  }
  for (Lane lane{0}; lane.value < table.lanes(); ++lane) {
    const auto clock = sm_clocks.find(lane_sms[at(lane.value)]);
    if (clock == sm_clocks.end()) continue;
    for (std::int64_t slot = table.lane_begin[at(lane.value)];
         slot < table.lane_begin[at(lane.value) + 1]; ++slot) {
      for (const auto stamp : kStamps) {
        const std::int64_t cycles = clocks[at(slot)].cycles.*stamp;
        if (cycles >= 0) anchored.times[at(slot)].*stamp = clock->second.ns(cycles);
      }
    }
  }
  begin_at_zero(anchored.times);
  return anchored;
}

}  // namespace stagger::gpu
