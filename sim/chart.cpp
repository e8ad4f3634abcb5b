#include "sim/chart.hpp"

#include <algorithm>
#include <tuple>

namespace stagger::sim {
namespace {

class Layout {
 public:
  Layout(const Timeline& timeline, double resolution)
      : timeline_(timeline),
        whole_(static_cast<double>(std::max<Ticks>(timeline.makespan, 1))),
        resolution_(resolution) {}

  Chart run() {
    chart_.axis = axis_of(timeline_.makespan, 10);
    chart_.split_rows = reductions_overlap();
    chart_.heads_shown = std::min(timeline_.heads, static_cast<std::int32_t>(kHeadColors.size()));
    std::int32_t sm = -1;
    for (const Interval& interval : timeline_.intervals) {
      if (interval.sm.value != sm) open_ = {-1, -1};
      sm = interval.sm.value;
      if (interval.phase != Phase::wait) add(interval);
    }
    add_hops();
    return std::move(chart_);
  }

 private:
  [[nodiscard]] double part(Ticks time) const { return static_cast<double>(time) / whole_; }

  /// Whether some SM computes and reduces at once.
  [[nodiscard]] bool reductions_overlap() const {
    std::int32_t sm = -1;
    Ticks computed = 0;
    Ticks reduced = 0;
    for (const Interval& interval : timeline_.intervals) {
      if (interval.sm.value != sm) computed = reduced = 0;
      sm = interval.sm.value;
      if (interval.phase == Phase::compute) {
        if (interval.start < reduced) return true;
        computed = interval.end;
      } else if (interval.phase == Phase::reduce) {
        if (interval.start < computed) return true;
        reduced = interval.end;
      }
    }
    return false;
  }

  void add(const Interval& interval) {
    Box box{.row = interval.sm.value,
            .style = style_of(interval.phase),
            .head = interval.task.head.value,
            .begin = part(interval.start),
            .end = part(interval.end),
            .critical = interval.critical,
            .label = {}};
    if (interval.phase == Phase::compute) box.label = std::to_string(interval.task.q.value);
    // In split rows compute and reduction are merged apart.
    const std::size_t lane = chart_.split_rows && box.style == BoxStyle::reduce ? 1 : 0;
    if (!merge(box, open_[lane])) {
      open_[lane] = std::ssize(chart_.boxes);
      chart_.boxes.push_back(std::move(box));
    }
  }

  /// Grows the row's last box if this one is too narrow to be seen beside it.
  bool merge(const Box& box, std::ptrdiff_t open) {
    if (open < 0 || box.end - box.begin >= resolution_) return false;
    Box& last = chart_.boxes[static_cast<std::size_t>(open)];
    if (last.head != box.head || box.begin - last.end >= resolution_) return false;
    if (last.end - last.begin >= resolution_ && last.style != BoxStyle::busy) return false;
    if (last.style != box.style) last.style = BoxStyle::busy;
    last.end = std::max(last.end, box.end);
    last.critical = last.critical || box.critical;
    last.label.clear();
    chart_.merged = true;
    return true;
  }

  static BoxStyle style_of(Phase phase) {
    if (phase == Phase::compute) return BoxStyle::compute;
    return phase == Phase::reduce ? BoxStyle::reduce : BoxStyle::overhead;
  }

  void add_hops() {
    std::vector<const Interval*> path;
    for (const Interval& interval : timeline_.intervals) {
      if (interval.critical) path.push_back(&interval);
    }
    std::sort(path.begin(), path.end(), [](const Interval* left, const Interval* right) {
      return std::tie(left->start, left->end) < std::tie(right->start, right->end);
    });
    for (std::size_t place = 1; place < path.size(); ++place) {
      const Interval& from = *path[place - 1];
      const Interval& to = *path[place];
      if (from.sm == to.sm) continue;
      chart_.hops.push_back({from.sm.value, to.sm.value, part(from.end), part(to.start)});
    }
  }

  const Timeline& timeline_;
  double whole_;
  double resolution_;
  Chart chart_;
  std::array<std::ptrdiff_t, 2> open_ = {-1, -1};  ///< the row's last boxes
};

}  // namespace

std::vector<Ticks> axis_of(Ticks makespan, int count) {
  Ticks step = 1;
  while (makespan / step > count) {
    if (makespan / (2 * step) <= count) {
      step *= 2;
    } else if (makespan / (5 * step) <= count) {
      step *= 5;
    } else {
      step *= 10;
    }
  }
  std::vector<Ticks> axis;
  for (Ticks time = 0; time <= makespan && axis.size() < 1000; time += step)
    axis.push_back(time);
  return axis;
}

Chart chart_of(const Timeline& timeline, double resolution) {
  return Layout(timeline, resolution).run();
}

Chart chart_within(const Timeline& timeline, double resolution, std::size_t most_boxes) {
  Chart chart = chart_of(timeline, resolution);
  while (chart.boxes.size() > most_boxes && resolution < 1) {
    resolution *= 1.5;
    chart = chart_of(timeline, resolution);
  }
  return chart;
}

std::string grouped(Ticks number) {
  std::string digits = std::to_string(number);
  for (std::ptrdiff_t at = std::ssize(digits) - 3; at > (number < 0 ? 1 : 0); at -= 3) {
    digits.insert(static_cast<std::size_t>(at), ",");
  }
  return digits;
}

}  // namespace stagger::sim
