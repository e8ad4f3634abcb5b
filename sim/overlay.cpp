#include "sim/overlay.hpp"

#include "core/checked.hpp"
#include "core/error.hpp"
#include "core/time_unit.hpp"
#include "sim/chart.hpp"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

namespace stagger::sim {
namespace {

constexpr Ticks kLatest = Ticks{1} << 62;

std::string name_of(const Timeline& timeline) {
  return timeline.device.empty() ? "predicted" : "measured on " + timeline.device;
}

/// What a title says up to its colon: the schedule.
std::string head_of(const std::string& title) {
  return title.substr(0, title.find(':'));
}

/// The timelines' names, with the heads of their titles where those tell apart what is named alike.
std::vector<std::string> names_of(const std::vector<Timeline>& timelines) {
  std::vector<std::string> names;
  for (const Timeline& timeline : timelines) {
    const std::string head = head_of(timeline.title);
    const bool told = std::ranges::any_of(timelines, [&](const Timeline& other) {
      return name_of(other) == name_of(timeline) && head_of(other.title) != head;
    });
    names.push_back(name_of(timeline) + (told && !head.empty() ? ", " + head : ""));
  }
  return names;
}

/// The first's title; `ascending, descending: causal, …` where others say the same of others.
std::string title_of(const std::vector<Timeline>& timelines) {
  const std::string& first = timelines.front().title;
  const std::string rest = first.substr(head_of(first).size());
  std::vector<std::string> heads;
  for (const Timeline& timeline : timelines) {
    const std::string head = head_of(timeline.title);
    if (rest.empty() || timeline.title != head + rest) return first;
    if (std::ranges::find(heads, head) == heads.end()) heads.push_back(head);
  }
  std::string title;
  for (const std::string& head : heads)
    title += (title.empty() ? "" : ", ") + head;
  return title + rest;
}

/// Times in another clock, of which `factor` are `parts` of the timeline's, rounded up.
void convert(Timeline& timeline, Ticks factor, Ticks parts, const std::string& clock) {
  if (std::max(timeline.makespan, timeline.lower_bound) > kLatest / factor) {
    throw Error(ErrorKind::limit, "the timeline would end after 2^62 " + clock);
  }
  const auto put = [&](Ticks& time) { time = divide_up(time * factor, parts); };
  put(timeline.makespan);
  put(timeline.lower_bound);
  for (Interval& interval : timeline.intervals) {
    put(interval.start);
    put(interval.end);
  }
  timeline.clock = clock;
}

void convert_to_ns(Timeline& timeline, std::optional<std::int64_t> tick_ns) {
  if (!tick_ns) {
    throw Error(ErrorKind::usage, "the " + name_of(timeline) + " timeline '" + timeline.title +
                                      "' is in ticks, another one in ns: --tick-ns says what a "
                                      "tick lasts");
  }
  convert(timeline, *tick_ns, parts_of(timeline.clock), "ns");
}

/// Ticks and parts of them, all in parts that are whole in each.
void convert_to_parts(std::vector<Timeline>& timelines) {
  Ticks parts = 1;
  for (const Timeline& timeline : timelines)
    parts = std::lcm(parts, parts_of(timeline.clock));
  if (parts > kMostParts) {
    throw Error(ErrorKind::limit, "the timelines have no parts of a tick in common");
  }
  for (Timeline& timeline : timelines)
    convert(timeline, parts / parts_of(timeline.clock), 1, clock_of_parts(parts));
}

/// Brings timelines of several clocks to one.
void unify(std::vector<Timeline>& timelines, std::optional<std::int64_t> tick_ns) {
  const auto in_ns = [](const Timeline& timeline) { return timeline.clock == "ns"; };
  if (std::ranges::none_of(timelines, in_ns)) return convert_to_parts(timelines);
  for (Timeline& timeline : timelines) {
    if (!in_ns(timeline)) convert_to_ns(timeline, tick_ns);
  }
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
  expect_few(widest->sms * std::ssize(timelines), "picture or trace");
  unify(timelines, tick_ns);
  std::stable_sort(timelines.begin(), timelines.end(),
                   [](const Timeline& left, const Timeline& right) {
                     return left.device.empty() && !right.device.empty();
                   });
  Timeline all{.clock = timelines.front().clock, .title = title_of(timelines)};
  const std::vector<std::string> names = names_of(timelines);
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
        {.name = names[all.layers.size()], .makespan = timeline.makespan, .hangs = timeline.hangs});
  }
  tag(all.layers);
  std::stable_sort(all.intervals.begin(), all.intervals.end(), precedes);
  return all;
}

}  // namespace stagger::sim
