#include "core/files.hpp"
#include "core/json_value.hpp"
#include "core/limits.hpp"
#include "core/time_unit.hpp"

#include <algorithm>
#include <limits>
#include <tuple>

namespace stagger {
namespace {

constexpr std::int64_t kAnyTime = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMostTileBytes = std::int64_t{1} << 32;  ///< no sum of tiles overflows

Interval read_interval(const JsonValue& value, const Timeline& timeline) {
  value.expect_keys({"sm", "head", "kv", "q", "rank", "phase", "start", "end", "critical"});
  const auto index = [&](const char* key, std::int64_t most) {
    return static_cast<std::int32_t>(value.at(key).integer(0, most));
  };
  constexpr Ticks kLatest = Ticks{1} << 62;
  Interval interval;
  interval.sm = Sm{index("sm", timeline.sms - 1)};
  interval.task = {Head{index("head", timeline.heads - 1)}, KvTile{index("kv", kMaxTiles)},
                   QTile{index("q", kMaxTiles)}};
  interval.phase = static_cast<Phase>(value.at("phase").word("phase", kPhaseNames));
  interval.start = value.at("start").integer(0, kLatest);
  interval.end = value.at("end").integer(interval.start, kLatest);
  if (value.has("rank")) interval.rank = index("rank", std::numeric_limits<std::int32_t>::max());
  if (value.has("critical")) interval.critical = value.at("critical").boolean();
  return interval;
}
}  // namespace

Timeline read_timeline_json(std::string_view text, const std::string& source) {
  const JsonDocument document(text, source);
  const JsonValue& root = document.root();
  root.expect_schema("stagger.timeline/1");
  root.expect_keys({"schema", "name", "clock", "device", "sms", "heads", "makespan", "lower_bound",
                    "hangs", "dq", "intervals"});
  Timeline timeline;
  timeline.title = root.has("name") ? root.at("name").string() : "";
  const JsonValue clock = root.at("clock");
  timeline.clock = clock.string();
  if (timeline.clock != "ns" && parts_of(timeline.clock) == 0) {
    clock.reject("unknown clock '" + timeline.clock + "'; known: ticks, ns, and ticks/5 and so on");
  }
  if (root.has("device")) timeline.device = root.at("device").string();
  timeline.sms = static_cast<std::int32_t>(root.at("sms").integer(0, kMaxSms));
  timeline.heads = static_cast<std::int32_t>(root.at("heads").integer(0, kMaxHeads));
  timeline.makespan = root.at("makespan").integer(0, kAnyTime);
  if (root.has("lower_bound")) {
    timeline.lower_bound = root.at("lower_bound").integer(0, kAnyTime);
  }
  if (root.has("hangs")) timeline.hangs = root.at("hangs").boolean();
  if (root.has("dq")) {
    const JsonValue dq = root.at("dq");
    dq.expect_keys({"tile_bytes", "l2_bytes"});
    timeline.dq = DqMemory{.tile_bytes = dq.at("tile_bytes").integer(1, kMostTileBytes),
                           .l2_bytes = dq.at("l2_bytes").integer(1, kAnyTime)};
  }
  const JsonValue intervals = root.at("intervals");
  for (std::size_t index = 0; index < intervals.size(); ++index) {
    const JsonValue interval = intervals.item(index);
    timeline.intervals.push_back(read_interval(interval, timeline));
    timeline.makespan = std::max(timeline.makespan, timeline.intervals.back().end);
  }
  std::stable_sort(timeline.intervals.begin(), timeline.intervals.end(),
                   [](const Interval& left, const Interval& right) {
                     return std::tie(left.sm, left.start) < std::tie(right.sm, right.start);
                   });
  return timeline;
}

std::string write_timeline_json(const Timeline& timeline) {
  std::string text =
      "{\"schema\": \"stagger.timeline/1\", \"name\": " + json_quote(timeline.title) +
      ", \"clock\": " + json_quote(timeline.clock);
  if (!timeline.device.empty()) text += ", \"device\": " + json_quote(timeline.device);
  const auto number = [&](const char* key, std::int64_t value) {
    text += ", \"" + std::string(key) + "\": " + std::to_string(value);
  };
  number("sms", timeline.sms);
  number("heads", timeline.heads);
  number("makespan", timeline.makespan);
  number("lower_bound", timeline.lower_bound);
  if (timeline.hangs) text += ", \"hangs\": true";
  if (timeline.dq) {
    text += ", \"dq\": {\"tile_bytes\": " + std::to_string(timeline.dq->tile_bytes) +
            ", \"l2_bytes\": " + std::to_string(timeline.dq->l2_bytes) + "}";
  }
  text += ",\n \"intervals\": [";
  const char* separator = "\n  {\"sm\": ";
  for (const Interval& interval : timeline.intervals) {
    text += separator + std::to_string(interval.sm.value);
    separator = ",\n  {\"sm\": ";
    number("head", interval.task.head.value);
    number("kv", interval.task.kv.value);
    number("q", interval.task.q.value);
    number("rank", interval.rank);
    text += ", \"phase\": \"" + std::string(phase_name(interval.phase)) + "\"";
    number("start", interval.start);
    number("end", interval.end);
    if (interval.critical) text += ", \"critical\": true";
    text += "}";
  }
  return text + "]}\n";
}
}  // namespace stagger
