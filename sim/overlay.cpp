#include "sim/overlay.hpp"

#include "core/error.hpp"
#include "sim/chart.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace stagger::sim {
namespace {

constexpr Ticks kLatest = Ticks{1} << 62;

std::string name_of(const Timeline& timeline) {
  return timeline.device.empty() ? "predicted" : "measured on " + timeline.device;
}

void scale(Timeline& timeline, std::optional<std::int64_t> tick_ns) {
  if (!tick_ns) {
    throw Error(ErrorKind::usage, "the " + name_of(timeline) + " timeline '" + timeline.title +
                                      "' is in ticks, another one in ns: --tick-ns says what a "
                                      "tick lasts");
  }
  if (std::max(timeline.makespan, timeline.lower_bound) > kLatest / *tick_ns) {
    throw Error(ErrorKind::limit, "the timeline would end after 2^62 ns");
  }
  timeline.makespan *= *tick_ns;
  timeline.lower_bound *= *tick_ns;
  for (Interval& interval : timeline.intervals) {
    interval.start *= *tick_ns;
    interval.end *= *tick_ns;
  }
  timeline.clock = "ns";
}

/// `p` and `m`, or digits where that would not tell them apart.
void tag(std::vector<TimelineLayer>& layers) {
  const bool pair = layers.size() == 2 && layers[0].name[0] != layers[1].name[0];
  for (std::size_t layer = 0; layer < layers.size(); ++layer)
    layers[layer].tag = pair ? layers[layer].name.substr(0, 1) : std::to_string(layer + 1);
}

}  // namespace

Timeline overlay(std::vector<Timeline> timelines, std::optional<std::int64_t> tick_ns) {
  STAGGER_EXPECTS(!timelines.empty());
  const auto widest = std::max_element(
      timelines.begin(), timelines.end(),
      [](const Timeline& left, const Timeline& right) { return left.sms < right.sms; });
  expect_few(widest->sms * std::ssize(timelines));
  const auto in_ns = [](const Timeline& timeline) { return timeline.clock == "ns"; };
  if (std::any_of(timelines.begin(), timelines.end(), in_ns)) {
    for (Timeline& timeline : timelines) {
      if (!in_ns(timeline)) scale(timeline, tick_ns);
    }
  }
  std::stable_sort(timelines.begin(), timelines.end(),
                   [](const Timeline& left, const Timeline& right) {
                     return left.device.empty() && !right.device.empty();
                   });
  Timeline all{.clock = timelines.front().clock, .title = timelines.front().title};
  for (const Timeline& timeline : timelines) {
    STAGGER_EXPECTS(timeline.layers.empty());
    all.sms = std::max(all.sms, timeline.sms);
    all.heads = std::max(all.heads, timeline.heads);
    all.makespan = std::max(all.makespan, timeline.makespan);
    all.hangs = all.hangs || timeline.hangs;
    if (all.lower_bound == 0) all.lower_bound = timeline.lower_bound;
    for (Interval interval : timeline.intervals) {
      interval.layer = static_cast<std::int32_t>(all.layers.size());
      all.intervals.push_back(interval);
    }
    all.layers.push_back(
        {.name = name_of(timeline), .makespan = timeline.makespan, .hangs = timeline.hangs});
  }
  tag(all.layers);
  std::stable_sort(all.intervals.begin(), all.intervals.end(), precedes);
  return all;
}

}  // namespace stagger::sim
