#include "sim/chart.hpp"

#include "core/error.hpp"

#include <fmt/format.h>

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
    std::int32_t row = -1;
    for (const Interval& interval : timeline_.intervals) {
      if (timeline_.row_of(interval) != row) open_.fill(-1);
      row = timeline_.row_of(interval);
      if (interval.phase != Phase::wait) add(interval);
    }
    add_hops();
    chart_.endless = endless_waits(timeline_);
    return std::move(chart_);
  }

 private:
  [[nodiscard]] double part(Ticks time) const { return static_cast<double>(time) / whole_; }

  /// Whether some SM computes and reduces at once.
  [[nodiscard]] bool reductions_overlap() const {
    std::int32_t row = -1;
    Ticks computed = 0;
    Ticks reduced = 0;
    for (const Interval& interval : timeline_.intervals) {
      if (timeline_.row_of(interval) != row) computed = reduced = 0;
      row = timeline_.row_of(interval);
      if (interval.phase == Phase::compute) {
        if (interval.start < reduced) return true;
        computed = interval.end;
      } else if (interval.phase == Phase::reduce || interval.phase == Phase::reduce_kv) {
        if (interval.start < computed) return true;
        reduced = interval.end;
      }
    }
    return false;
  }

  void add(const Interval& interval) {
    Box box{.row = timeline_.row_of(interval),
            .style = style_of(interval.phase),
            .head = interval.task.head.value,
            .begin = part(interval.start),
            .end = part(interval.end),
            .label = {}};
    // In split rows compute and reduction are merged apart; critical boxes are outlined apart, so
    // that a merged box is not critical as a whole.
    const std::size_t lane = chart_.split_rows && box.style == BoxStyle::reduce ? 1 : 0;
    if (interval.critical) add_to(chart_.critical, open_[2 + lane], box);
    if (interval.phase == Phase::compute) box.label = std::to_string(interval.task.q.value);
    if (interval.phase == Phase::reduce_kv) {
      box.label = "dK";
      chart_.combines = true;
    }
    if (add_to(chart_.boxes, open_[lane], std::move(box))) chart_.merged = true;
  }

  /// Adds a box, or grows the row's last one if it can't be seen beside that; whether it grew.
  bool add_to(std::vector<Box>& boxes, std::ptrdiff_t& open, Box box) const {
    if (open >= 0 && grow(boxes[at(open)], box)) return true;
    open = std::ssize(boxes);
    boxes.push_back(std::move(box));
    return false;
  }

  [[nodiscard]] bool grow(Box& last, const Box& box) const {
    if (box.end - box.begin >= resolution_) return false;
    if (last.head != box.head || box.begin - last.end >= resolution_) return false;
    if (last.end - last.begin >= resolution_ && last.style != BoxStyle::busy) return false;
    if (last.style != box.style) last.style = BoxStyle::busy;
    last.end = std::max(last.end, box.end);
    last.label.clear();
    return true;
  }

  static BoxStyle style_of(Phase phase) {
    if (phase == Phase::compute) return BoxStyle::compute;
    const bool reduces = phase == Phase::reduce || phase == Phase::reduce_kv;
    return reduces ? BoxStyle::reduce : BoxStyle::overhead;
  }

  void add_hops() {
    for (const CriticalArrow& arrow : critical_arrows(timeline_)) {
      add_hop({timeline_.row_of(*arrow.from), timeline_.row_of(*arrow.to), part(arrow.from->end),
               part(arrow.to->start)});
    }
  }

  /// Whether two rows are of one timeline.
  [[nodiscard]] bool one_layer(std::int32_t row, std::int32_t other) const {
    return (row - other) % timeline_.rows_per_sm() == 0;
  }

  void add_hop(const Hop& hop) {
    if (!chart_.hops.empty() && one_layer(hop.from_row, chart_.hops.back().from_row) &&
        hop.to - chart_.hops.back().from < resolution_) {
      Hop& last = chart_.hops.back();
      const auto [top, bottom] =
          std::minmax({last.from_row, last.to_row, hop.from_row, hop.to_row});
      last = {top, bottom, last.from, hop.to};
    } else {
      chart_.hops.push_back(hop);
    }
  }

  const Timeline& timeline_;
  double whole_;
  double resolution_;
  Chart chart_;
  /// The row's last box and last outline, each above and below in split rows.
  std::array<std::ptrdiff_t, 4> open_ = {-1, -1, -1, -1};
};

}  // namespace

std::vector<Ticks> axis_of(Ticks makespan, int count) {
  std::vector<Ticks> axis = {0};
  if (count < 1) return axis;
  Ticks step = 1;
  for (Ticks marks = makespan; marks > count; marks = makespan / step)
    step *= marks / 2 <= count ? 2 : marks / 5 <= count ? 5 : 10;
  while (makespan - axis.back() >= step)
    axis.push_back(axis.back() + step);
  return axis;
}

std::vector<CriticalArrow> critical_arrows(const Timeline& timeline) {
  std::vector<const Interval*> path;
  for (const Interval& interval : timeline.intervals) {
    if (interval.critical) path.push_back(&interval);
  }
  std::sort(path.begin(), path.end(), [](const Interval* left, const Interval* right) {
    return std::tie(left->layer, left->start, left->end) <
           std::tie(right->layer, right->start, right->end);
  });
  std::vector<CriticalArrow> arrows;
  for (std::size_t place = 1; place < path.size(); ++place) {
    const Interval* const from = path[place - 1];
    const Interval* const to = path[place];
    if (from->layer == to->layer && from->sm != to->sm) arrows.push_back({from, to, place});
  }
  return arrows;
}

std::vector<EndlessWait> endless_waits(const Timeline& timeline) {
  std::vector<EndlessWait> waits;
  const auto hangs = [&](const Interval& interval) {
    return timeline.layers.empty() ? timeline.hangs : timeline.layers[at(interval.layer)].hangs;
  };
  for (const Interval& interval : timeline.intervals) {
    if (!hangs(interval)) continue;
    const std::int32_t row = timeline.row_of(interval);
    const bool waiting = !waits.empty() && waits.back().row == row;
    if (interval.phase == Phase::wait && !waiting) waits.push_back({row, interval.start});
    const bool reduces = interval.phase == Phase::reduce || interval.phase == Phase::reduce_kv;
    if (reduces && waiting) waits.pop_back();
  }
  return waits;
}

bool drawable(const Timeline& timeline) {
  const Interval* last = nullptr;
  for (const Interval& interval : timeline.intervals) {
    const bool inside = interval.sm.value >= 0 && interval.sm.value < timeline.sms &&
                        interval.layer >= 0 && interval.layer < timeline.rows_per_sm() &&
                        interval.task.head.value >= 0 && interval.start >= 0 &&
                        interval.start <= interval.end && interval.end <= timeline.makespan;
    if (!inside) return false;
    if (last != nullptr && std::tie(last->sm, last->layer, last->start) >
                               std::tie(interval.sm, interval.layer, interval.start)) {
      return false;
    }
    last = &interval;
  }
  return true;
}

void expect_few(std::int64_t rows, const char* what) {
  if (rows <= kMostRows) return;
  throw Error(ErrorKind::limit,
              fmt::format("{} rows, of SMs; a {} has at most {}", rows, what, kMostRows));
}

Chart chart_of(const Timeline& timeline, double resolution) {
  STAGGER_EXPECTS(drawable(timeline));
  return Layout(timeline, resolution).run();
}

Chart chart_within(const Timeline& timeline, double resolution, std::size_t most_shapes) {
  expect_few(timeline.rows());
  Chart chart = chart_of(timeline, resolution);
  while (chart.boxes.size() + chart.critical.size() + chart.hops.size() > most_shapes &&
         resolution < 1) {
    resolution *= 1.5;
    chart = chart_of(timeline, resolution);
  }
  return chart;
}

std::string dotted_ends(const Timeline& overlay) {
  std::string tags;
  for (std::size_t layer = 0; layer + 1 < overlay.layers.size(); ++layer)
    tags += (layer == 0 ? "" : ", ") + overlay.layers[layer].tag;
  return tags + (overlay.layers.size() > 2 ? " end" : " ends");
}

std::string solid_end(const Timeline& overlay) {
  return overlay.layers.back().tag + " ends";
}

std::vector<std::string> layer_lines(const Timeline& overlay, const char* unit) {
  std::vector<std::string> lines;
  for (const auto& [name, tag, makespan, hangs] : overlay.layers) {
    lines.push_back(fmt::format("{} {}: {}{} {}", tag, name, hangs ? "hangs after " : "",
                                unit_of(overlay).number(makespan), unit));
    const Ticks first = overlay.layers.front().makespan;
    if (lines.size() == 1 || first == 0 || hangs || overlay.layers.front().hangs) continue;
    lines.back() += fmt::format(
        " ({:+.1f} %)", 100 * (static_cast<double>(makespan) / static_cast<double>(first) - 1));
  }
  return lines;
}

}  // namespace stagger::sim
