#include "workbench/block/sweep.hpp"

#include "core/error.hpp"
#include "core/limits.hpp"
#include "core/nearest.hpp"
#include "workbench/block/svg.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace stagger::block {
namespace {

constexpr std::size_t kMostHeadCounts = 16;

[[noreturn]] void reject(std::string_view text, const std::string& what) {
  throw Error(ErrorKind::usage, "--sweep " + in_quotes(text) + ": " + what +
                                    "; such as seq=2048:65536,heads=48,64,96,128");
}

std::int64_t number_in(std::string_view text, std::string_view word, std::int64_t most) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc{} || end != word.data() + word.size() || value < 1 || value > most) {
    reject(text, in_quotes(word) + " is no number from 1 to " + std::to_string(most));
  }
  return value;
}

void read_seq(std::string_view text, std::string_view value, SweepRange& range) {
  const std::size_t colon = value.find(':');
  range.first_seq = number_in(text, value.substr(0, colon), kMaxTokens);
  range.last_seq = colon == std::string_view::npos
                       ? range.first_seq
                       : number_in(text, value.substr(colon + 1), kMaxTokens);
  if (range.last_seq < range.first_seq) reject(text, "the sequences are an empty range");
}

/// A curve is drawn through this many points an octave.
constexpr int kPerOctave = 32;

class SweepPicture {
 public:
  SweepPicture(const std::string& title, const SweepRange& range, const DropoutShape& shape,
               const RngChoice& rng, const Calibration& calibration, bool both)
      : range_(range),
        shape_(shape),
        rng_(rng),
        calibration_(calibration),
        both_(both),
        octaves_(std::max(1e-9, std::log2(static_cast<double>(range.last_seq) /
                                          static_cast<double>(range.first_seq)))),
        borders_(
            borders_of(ratios_of(calibration, rng, shape.head_dim, both), calibration.slowdown)),
        svg_(kWidth, kStrips + kStrip * static_cast<double>(range.heads.size()) + 60, title) {
    svg_.text(16, 22, "start", title, "font-size=\"13\" font-weight=\"bold\"");
    for (const std::int64_t heads : range.heads) {
      for (int step = 0; step <= steps(); ++step) {
        const double speedup = at(heads, seq_at(step)).speedup();
        least_ = std::min(least_, speedup);
        most_ = std::max(most_, speedup);
      }
    }
    step_ = std::max(0.05, round_step(most_ - least_, 12));
    least_ = step_ * std::floor(least_ / step_);
    most_ = step_ * std::ceil(most_ / step_);
  }

  std::string draw() {
    grid();
    for (std::size_t index = 0; index < range_.heads.size(); ++index)
      curve(index);
    strips();
    return svg_.finish();
  }

 private:
  static constexpr double kWidth = 740;
  static constexpr double kLeft = 70;
  static constexpr double kRight = 700;
  static constexpr double kTop = 44;
  static constexpr double kBottom = 340;
  static constexpr double kStrips = 384;
  static constexpr double kStrip = 18;

  [[nodiscard]] int steps() const { return static_cast<int>(std::ceil(octaves_ * kPerOctave)); }
  [[nodiscard]] std::int64_t seq_at(int step) const {
    const double octaves = std::min(octaves_, static_cast<double>(step) / kPerOctave);
    return std::llround(static_cast<double>(range_.first_seq) * std::exp2(octaves));
  }
  [[nodiscard]] Overlap at(std::int64_t heads, std::int64_t seq) const {
    DropoutShape shape = shape_;
    shape.heads = heads;
    shape.seq = seq;
    return overlap_of(shape, rng_, calibration_, both_);
  }
  /// Whether there is one sequence alone, in the middle of an axis without a scale.
  [[nodiscard]] bool single() const { return range_.first_seq == range_.last_seq; }
  [[nodiscard]] double x(double seq) const {
    if (single()) return (kLeft + kRight) / 2;
    const double octaves = std::log2(seq / static_cast<double>(range_.first_seq));
    return kLeft + (kRight - kLeft) * octaves / octaves_;
  }
  [[nodiscard]] double y(double speedup) const {
    return kBottom - (kBottom - kTop) * (speedup - least_) / (most_ - least_);
  }

  void grid() {
    for (int mark = 0; least_ + step_ * mark <= most_ + 0.5 * step_; ++mark) {
      const double speedup = least_ + step_ * mark;
      const bool one = std::abs(speedup - 1) < 1e-9;
      svg_.line(kLeft, y(speedup), kRight, y(speedup),
                one ? "stroke=\"black\"" : "stroke=\"#dddddd\"");
      svg_.text(kLeft - 6, y(speedup) + 4, "end", fmt::format("{:.2f}", speedup));
    }
    marks();
    svg_.text(kRight, kBottom + 34, "end", "tokens", "font-size=\"10\"");
    svg_.text(16, kTop - 8, "start", "speedup", "font-size=\"10\"");
  }

  /// Marks the sequences that double, and where the curves end; that has its number before others.
  void marks() {
    constexpr double kNumber = 44;  ///< what a number needs
    const double end = x(static_cast<double>(range_.last_seq));
    const auto mark = [&](std::int64_t seq) {
      const double at = x(static_cast<double>(seq));
      svg_.line(at, kBottom, at, kBottom + 5, "stroke=\"black\"");
      if (seq < range_.last_seq && end - at < kNumber) return;
      svg_.text(at, kBottom + 18, "middle", std::to_string(seq));
    };
    for (std::int64_t seq = range_.first_seq; seq < range_.last_seq; seq *= 2)
      mark(seq);
    mark(range_.last_seq);
  }

  void curve(std::size_t index) {
    const std::int64_t heads = range_.heads[index];
    std::string points;
    for (int step = 0; step <= steps(); ++step) {
      const std::int64_t seq = seq_at(step);
      points += fmt::format("{}{:.2f} {:.2f}", step == 0 ? "M" : "L", x(static_cast<double>(seq)),
                            y(at(heads, seq).speedup()));
    }
    svg_.path(points, fmt::format("fill=\"none\" stroke=\"{}\" stroke-width=\"2\"", color(index)));
    for (std::int64_t seq = range_.first_seq; seq <= range_.last_seq; seq *= 2) {
      svg_.rect(x(static_cast<double>(seq)) - 2.5, y(at(heads, seq).speedup()) - 2.5, 5, 5,
                fmt::format("fill=\"{}\"", color(index)));
    }
  }

  void shade(int region, double from, double to, double top) {
    constexpr const char* kShades[] = {"#eeeeee", "#8fd6bd", "#f2b48c"};
    if (to > from) {
      svg_.rect(from, top, to - from, kStrip - 4, fmt::format("fill=\"{}\"", kShades[region - 1]));
    }
    if (to - from > 14) {
      svg_.text((from + to) / 2, top + 11, "middle", std::to_string(region), "font-size=\"10\"");
    }
  }

  void strip(std::int64_t heads, double top) {
    const double borders[] = {borders_.region2, borders_.region3};
    double from = kLeft;
    for (int region = 1; region <= 3; ++region) {
      const double border =
          region == 3 ? kRight : x(borders[region - 1] * static_cast<double>(heads));
      const double to = std::clamp(border, from, kRight);
      shade(region, from, to, top);
      from = to;
    }
  }

  /// The region of the one sequence that there is.
  void box(std::int64_t heads, double top) {
    constexpr double kHalf = 24;
    const auto seq = static_cast<double>(range_.first_seq);
    shade(borders_.region_of(seq / static_cast<double>(heads)), x(seq) - kHalf, x(seq) + kHalf,
          top);
  }

  /// Draws which sequences are in which region, a strip for each number of heads.
  void strips() {
    double top = kStrips;
    for (std::size_t index = 0; index < range_.heads.size(); ++index) {
      single() ? box(range_.heads[index], top) : strip(range_.heads[index], top);
      svg_.text(kLeft - 6, top + 11, "end", fmt::format("{} heads", range_.heads[index]),
                fmt::format("fill=\"{}\" font-weight=\"bold\" font-size=\"10\"", color(index)));
      top += kStrip;
    }
    svg_.text(kLeft, top + 16, "start",
              "region 1: the RNG, slowed, takes less than half of the GEMMs' time; 2: less than "
              "all of it; 3: more",
              "font-size=\"10\"");
  }

  const SweepRange& range_;
  DropoutShape shape_;
  RngChoice rng_;
  const Calibration& calibration_;
  bool both_;
  double octaves_;
  Borders borders_;
  Svg svg_;
  double least_ = 1;
  double most_ = 1.05;
  double step_ = 0.05;  ///< between two lines of the grid
};

}  // namespace

SweepRange parse_sweep(std::string_view text) {
  SweepRange range;
  bool in_heads = false;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    std::string_view word = text.substr(begin, end - begin);
    if (word.starts_with("seq=")) {
      if (range.first_seq != 0) reject(text, "seq= is given twice");
      read_seq(text, word.substr(4), range);
      in_heads = false;
    } else {
      if (word.starts_with("heads=")) {
        word = word.substr(6);
        in_heads = true;
      }
      if (!in_heads) reject(text, in_quotes(word) + " is neither seq=… nor heads=…");
      const std::int64_t heads = number_in(text, word, kMaxHeads);
      if (std::ranges::count(range.heads, heads) > 0) {
        reject(text, "heads=" + std::to_string(heads) + " is given twice");
      }
      range.heads.push_back(heads);
    }
    begin = end + 1;
  }
  if (range.first_seq == 0) reject(text, "the sequences are missing");
  if (range.heads.empty()) reject(text, "the heads are missing");
  if (range.heads.size() > kMostHeadCounts) reject(text, "more than 16 numbers of heads");
  return range;
}

std::vector<Overlap> sweep(const SweepRange& range, const DropoutShape& shape, const RngChoice& rng,
                           const Calibration& calibration, bool both) {
  std::vector<Overlap> points;
  for (const std::int64_t heads : range.heads) {
    for (std::int64_t seq = range.first_seq; seq <= range.last_seq; seq *= 2) {
      DropoutShape point = shape;
      point.heads = heads;
      point.seq = seq;
      points.push_back(overlap_of(point, rng, calibration, both));
    }
  }
  return points;
}

std::string sweep_svg(const std::string& title, const SweepRange& range, const DropoutShape& shape,
                      const RngChoice& rng, const Calibration& calibration, bool both) {
  return SweepPicture(title, range, shape, rng, calibration, both).draw();
}

}  // namespace stagger::block
