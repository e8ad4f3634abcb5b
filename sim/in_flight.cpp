#include "sim/in_flight.hpp"

#include "core/error.hpp"
#include "core/text.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace stagger::sim {

std::vector<InFlight> dq_in_flight(const Timeline& timeline) {
  std::map<std::pair<Head, QTile>, std::pair<Ticks, Ticks>> spans;
  for (const Interval& interval : timeline.intervals) {
    if (interval.phase != Phase::reduce) continue;
    const auto [place, is_first] =
        spans.try_emplace({interval.task.head, interval.task.q}, interval.start, interval.end);
    if (is_first) continue;
    auto& [begin, end] = place->second;
    begin = std::min(begin, interval.start);
    end = std::max(end, interval.end);
  }
  std::vector<std::pair<Ticks, int>> changes;
  for (const auto& [tile, span] : spans) {
    changes.emplace_back(span.first, 1);
    changes.emplace_back(span.second, -1);
  }
  std::sort(changes.begin(), changes.end());
  std::vector<InFlight> steps;
  std::int64_t tiles = 0;
  for (std::size_t next = 0; next < changes.size(); ++next) {
    tiles += changes[next].second;
    const bool is_last_of_time =
        next + 1 == changes.size() || changes[next].first != changes[next + 1].first;
    if (is_last_of_time) steps.push_back({changes[next].first, tiles});
  }
  return steps;
}

InFlightCurve in_flight_curve(const Timeline& timeline, int columns) {
  STAGGER_EXPECTS(columns > 0);
  if (!timeline.dq || timeline.makespan <= 0) return {};
  const std::vector<InFlight> steps = dq_in_flight(timeline);
  if (steps.empty()) return {};
  InFlightCurve curve;
  curve.columns.resize(at(columns));
  curve.l2 = timeline.dq->l2_bytes;
  // The column that holds the instant a little before or after `time`.
  __extension__ using Wide = __int128;
  const auto column = [&](Ticks time, int before) {
    return static_cast<std::int64_t>((Wide{time} * columns - before) / timeline.makespan);
  };
  for (std::size_t step = 0; step + 1 < steps.size(); ++step) {
    const std::int64_t bytes = steps[step].tiles * timeline.dq->tile_bytes;
    const std::int64_t last = column(steps[step + 1].time, 1);
    for (std::int64_t shown = column(steps[step].time, 0); shown <= last; ++shown)
      curve.columns[at(shown)] = std::max(curve.columns[at(shown)], bytes);
    curve.most = std::max(curve.most, bytes);
  }
  if (curve.most == 0) return {};  // no tile is for any time
  curve.words =
      "dQ in flight: at most " + decimal_bytes(curve.most) + "; L2 " + decimal_bytes(curve.l2);
  return curve;
}

}  // namespace stagger::sim
