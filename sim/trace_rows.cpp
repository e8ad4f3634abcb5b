#include "sim/trace_rows.hpp"

#include "core/index.hpp"
#include "core/time_unit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace stagger::sim {
namespace {

bool is_writers(Phase phase) {
  return phase == Phase::wait || phase == Phase::reduce || phase == Phase::reduce_kv;
}

/// Gives the intervals of one row their threads, each the first that is free. One that takes no
/// time lies within what begins when it does: viewers nest it.
class RowThreads {
 public:
  RowThreads(std::int32_t row, TraceThreads& all) : row_(row), all_(all) {
    for (const int writes : {0, 1})
      lanes_[at(writes)] = {{.thread = 2 * row + writes}};
  }

  std::int32_t place(const Interval& interval) {
    std::vector<Lane>& lanes = lanes_[is_writers(interval.phase) ? 1 : 0];
    auto lane = std::ranges::find_if(lanes, [&](const Lane& each) {
      return each.end <= interval.start ||
             (interval.start == interval.end && each.start == interval.start);
    });
    if (lane == lanes.end()) {
      add_lane(is_writers(interval.phase), lanes);
      lane = lanes.end() - 1;
    }
    lane->start = interval.start;
    lane->end = std::max(lane->end, interval.end);
    return lane->thread;
  }

 private:
  struct Lane {
    std::int32_t thread = 0;
    Ticks start = -1;  ///< of the last that it was given
    Ticks end = 0;
  };

  void add_lane(bool writes, std::vector<Lane>& lanes) {
    lanes.push_back({.thread = static_cast<std::int32_t>(all_.threads.size())});
    all_.threads.push_back({.row = row_,
                            .place = places_++,
                            .number = static_cast<std::int32_t>(lanes.size()),
                            .writes = writes});
  }

  std::int32_t row_;
  TraceThreads& all_;
  std::int32_t places_ = 2;
  std::array<std::vector<Lane>, 2> lanes_;  ///< what computes, and what writes
};

}  // namespace

std::string origin_words(const Timeline& timeline) {
  if (timeline.layers.empty()) {
    return timeline.device.empty() ? "predicted" : "measured, device " + timeline.device;
  }
  const auto measured = std::ranges::count_if(timeline.layers, [](const TimelineLayer& layer) {
    return layer.name.starts_with("measured");
  });
  if (measured == 0) return "predicted";
  return measured == std::ssize(timeline.layers) ? "measured" : "predicted and measured";
}

std::string unit_shown(const Timeline& timeline, const char* one) {
  const Ticks parts = parts_of(timeline.clock);
  return (parts == 1 ? one : "1/" + std::to_string(parts)) + std::string(" tick");
}

std::string row_name(const Timeline& timeline, std::int32_t row) {
  std::string name = fmt::format("SM {:03}", row / timeline.rows_per_sm());
  if (timeline.layers.empty()) return name;
  const TimelineLayer& layer = timeline.layers[at(row % timeline.rows_per_sm())];
  const bool alone = std::ranges::count(timeline.layers, layer.name, &TimelineLayer::name) == 1;
  return name + " " + layer.name + (alone ? "" : " " + layer.tag);
}

std::string TraceThread::name(const char* writer) const {
  return (writes ? writer : "compute") + (number == 1 ? "" : " " + std::to_string(number));
}

const TraceThread& TraceThreads::thread_of(std::int64_t interval) const {
  return threads[at(of[at(interval)])];
}

TraceThreads threads_of(const Timeline& timeline) {
  TraceThreads all;
  for (std::int32_t row = 0; row < timeline.rows(); ++row) {
    for (const int place : {0, 1})
      all.threads.push_back({.row = row, .place = place, .writes = place == 1});
  }
  all.of.reserve(timeline.intervals.size());
  for (std::size_t index = 0; index < timeline.intervals.size();) {
    const std::int32_t row = timeline.row_of(timeline.intervals[index]);
    RowThreads threads(row, all);
    for (; index < timeline.intervals.size() && timeline.row_of(timeline.intervals[index]) == row;
         ++index) {
      all.of.push_back(threads.place(timeline.intervals[index]));
    }
  }
  return all;
}

}  // namespace stagger::sim
