#include "sim/gantt_svg.hpp"

#include "core/printable.hpp"
#include "sim/chart.hpp"
#include "sim/in_flight.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace stagger::sim {
namespace {

constexpr std::size_t kMostSvgShapes = 20'000;  ///< about 2 MB; viewers stay quick

constexpr int kCurveColumns = 400;
constexpr double kCurveHeight = 56;

constexpr const char* kEndless = "stroke=\"#d00000\" stroke-width=\"1.4\" stroke-dasharray=\"4 3\"";
constexpr const char* kSolidEnd = "stroke=\"black\" stroke-width=\"1.2\"";
constexpr const char* kDottedEnd = "stroke=\"black\" stroke-width=\"1.2\" stroke-dasharray=\"2 2\"";

class Svg {
 public:
  Svg(const Timeline& timeline, const SvgOptions& options)
      : timeline_(timeline),
        unit_(unit_of(timeline)),
        rows_(static_cast<std::int32_t>(std::clamp<std::int64_t>(timeline.rows(), 1, kMostRows))),
        layers_(timeline.rows_per_sm()),
        pitch_(std::clamp(760.0 / rows_, 5.0, 30.0)),
        gap_(layers_ > 1 ? 0.35 * pitch_ : 0),
        left_(rows_ > 100 ? 58 : 50),
        right_(options.width - 24),
        top_(46),
        curve_(in_flight_curve(timeline, kCurveColumns)),
        bottom_(y(rows_ - 1) + pitch_ + (curve_.empty() ? 0 : kCurveHeight + 26)),
        width_(options.width),
        chart_(chart_within(timeline, 1.2 / (right_ - left_), kMostSvgShapes)) {}

  std::string draw() {
    const double height = bottom_ + 84;
    text_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
        "viewBox=\"0 0 {0:.0f} {1:.0f}\" font-family=\"Helvetica, Arial, sans-serif\" "
        "font-size=\"11\">\n<title>{2}</title>\n<rect width=\"100%\" height=\"100%\" "
        "fill=\"white\"/>\n",
        width_, height, printable_xml(timeline_.title));
    define_hatches();
    title();
    rows();
    boxes();
    critical_path();
    endless();
    if (!curve_.empty()) curve();
    axis();
    limits();
    legend();
    return text_ + "</svg>\n";
  }

 private:
  [[nodiscard]] double x(double part) const { return left_ + part * (right_ - left_); }
  [[nodiscard]] double x_of(Ticks time) const {
    return x(static_cast<double>(time) /
             static_cast<double>(std::max<Ticks>(timeline_.makespan, 1)));
  }
  /// The rows of an SM are close together.
  [[nodiscard]] double y(std::int32_t row) const {
    const std::int32_t sm = row / layers_;
    return top_ + row * pitch_ + sm * gap_;
  }

  void label(double at_x, double at_y, const char* anchor, const std::string& style,
             const std::string& words) {
    text_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}{}>{}</text>\n", at_x,
                         at_y, anchor, style.empty() ? "" : " ", style, printable_xml(words));
  }

  /// As large as it may be within the picture. A letter's width is some 0.66 of its height.
  void title() {
    const double letters = static_cast<double>(std::max<std::size_t>(timeline_.title.size(), 1));
    const double size = std::clamp((right_ - left_) / (0.66 * letters), 7.0, 13.0);
    label(left_, 20, "start", fmt::format("font-size=\"{:.3g}\" font-weight=\"bold\"", size),
          timeline_.title);
  }

  void line(double x1, double y1, double x2, double y2, const char* style) {
    text_ += fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {}/>\n", x1,
                         y1, x2, y2, style);
  }

  void define_hatches() {
    text_ += "<defs>\n";
    for (std::size_t color = 0; color < kHeadColors.size(); ++color) {
      text_ += fmt::format(
          "<pattern id=\"reduce{0}\" width=\"4\" height=\"4\" patternUnits=\"userSpaceOnUse\" "
          "patternTransform=\"rotate(45)\"><rect width=\"4\" height=\"4\" fill=\"#{1}\"/>"
          "<rect width=\"1.4\" height=\"4\" fill=\"white\" fill-opacity=\"0.75\"/></pattern>\n",
          color, kReduceColors[color]);
    }
    text_ += "</defs>\n";
  }

  /// A dotted line per SM, so that gaps are seen as waiting; labels thin out with many SMs.
  void rows() {
    const int every = pitch_ >= 11 ? 1 : pitch_ >= 7 ? 4 : 8;
    for (std::int32_t row = 0; row < timeline_.rows(); ++row) {
      line(left_, y(row) + pitch_ / 2, right_, y(row) + pitch_ / 2,
           "stroke=\"#bbbbbb\" stroke-width=\"0.6\" stroke-dasharray=\"1 3\"");
      name_row(row, every);
    }
  }

  void name_row(std::int32_t row, int every) {
    const std::int32_t sm = row / layers_;
    const std::int32_t layer = row % layers_;
    if (layers_ > 1 && pitch_ >= 8) {
      label(left_ - 4, y(row) + pitch_ / 2 + 2.5, "end", "font-size=\"8\" fill=\"#666666\"",
            timeline_.layers[at(layer)].tag);
    }
    if (layer > 0 || (sm % every != 0 && row + layers_ < timeline_.rows())) return;
    label(left_ - (layers_ > 1 ? 12 : 6), y(row) + layers_ * pitch_ / 2 + 3.5, "end",
          "font-size=\"10\"", fmt::format("SM {}", sm));
  }

  struct Frame {
    double top = 0;
    double height = 0;
  };

  [[nodiscard]] Frame frame_of(const Box& box) const {
    const double margin = pitch_ >= 12 ? 2 : 0.5;
    const double inner = pitch_ - 2 * margin;
    if (!chart_.split_rows) return {y(box.row) + margin, inner};
    if (box.style != BoxStyle::reduce) return {y(box.row) + margin, inner * 0.58};
    return {y(box.row) + margin + inner * 0.62, inner * 0.38};
  }

  static std::string fill_of(const Box& box) {
    const std::size_t color = color_of(box.head);
    if (box.style == BoxStyle::reduce) return fmt::format("url(#reduce{})", color);
    if (box.style == BoxStyle::overhead) return "#999999";
    return fmt::format("#{}", kHeadColors[color]);
  }

  /// Labels of boxes of one size are of one size, or all too small to be read: none is left out for
  /// a digit more.
  void boxes() {
    std::size_t letters = 1;
    for (const Box& box : chart_.boxes)
      letters = std::max(letters, box.label.size());
    std::string labels;
    text_ += "<g stroke=\"white\" stroke-width=\"0.4\">\n";
    for (const Box& box : chart_.boxes) {
      const Frame frame = frame_of(box);
      const double begin = x(box.begin);
      const double width = std::max(x(box.end) - begin, 0.3);
      text_ += fmt::format(
          "<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" fill=\"{}\"/>\n",
          begin, frame.top, width, frame.height, fill_of(box));
      const double room = (width - 2) / (0.62 * static_cast<double>(letters));
      const double size = std::min({11.0, frame.height * 0.8, room});
      if (size < 6 || box.label.empty()) continue;
      labels += fmt::format("<text x=\"{:.2f}\" y=\"{:.2f}\" font-size=\"{:.1f}\">{}</text>\n",
                            begin + width / 2, frame.top + frame.height / 2 + 0.36 * size, size,
                            box.label);
    }
    text_ += "</g>\n<g text-anchor=\"middle\">\n" + labels + "</g>\n";
  }

  void critical_path() {
    text_ += fmt::format("<g fill=\"none\" stroke=\"black\" stroke-width=\"{}\">\n",
                         pitch_ >= 12 ? 1.4 : 0.7);
    for (const Box& box : chart_.critical) {
      const Frame frame = frame_of(box);
      text_ += fmt::format("<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\"/>\n",
                           x(box.begin), frame.top, std::max(x(box.end) - x(box.begin), 0.3),
                           frame.height);
    }
    for (const Hop& hop : chart_.hops) {
      text_ += fmt::format("<path d=\"M{:.2f} {:.2f}L{:.2f} {:.2f}\"/>\n", x(hop.from),
                           y(hop.from_row) + pitch_ / 2, x(hop.to), y(hop.to_row) + pitch_ / 2);
    }
    text_ += "</g>\n";
  }

  /// A dashed line and a cross for what waits for ever.
  void endless() {
    for (const auto& [row, begin] : chart_.endless) {
      const double middle = y(row) + pitch_ / 2;
      line(x_of(begin), middle, right_, middle, kEndless);
      if (pitch_ >= 7) label(right_ + 4, middle + 4, "start", "fill=\"#d00000\"", "\u00d7");
    }
  }

  /// dQ tiles in flight, over the same times.
  void curve() {
    const double base = bottom_;
    const auto height_of = [&](std::int64_t bytes) {
      return kCurveHeight * static_cast<double>(bytes) / static_cast<double>(curve_.most);
    };
    std::string path = fmt::format("M{:.1f} {:.1f}", left_, base);
    for (std::size_t column = 0; column < curve_.columns.size(); ++column) {
      const auto part = [&](std::size_t edge) {
        return x(static_cast<double>(edge) / static_cast<double>(curve_.columns.size()));
      };
      path += fmt::format("L{:.1f} {:.1f}H{:.1f}", part(column),
                          base - height_of(curve_.columns[column]), part(column + 1));
    }
    text_ += fmt::format("<path d=\"{}V{:.1f}Z\" fill=\"#8896a8\"/>\n", path, base);
    label(left_ - 6, base - kCurveHeight / 2 + 3.5, "end", "font-size=\"10\"", "dQ");
    label(left_, base - kCurveHeight - 6, "start", "font-size=\"10\"", curve_.words);
    if (!curve_.shows_l2()) return;
    line(left_, base - height_of(curve_.l2), right_, base - height_of(curve_.l2),
         "stroke=\"#d00000\" stroke-width=\"1\" stroke-dasharray=\"5 3\"");
    label(right_ + 3, base - height_of(curve_.l2) + 3.5, "start",
          "font-size=\"9\" fill=\"#d00000\"", "L2");
  }

  void axis() {
    line(left_, bottom_ + 4, right_, bottom_ + 4, "stroke=\"black\"");
    for (const Ticks time : chart_.axis) {
      line(x_of(time), bottom_ + 4, x_of(time), bottom_ + 9, "stroke=\"black\"");
      label(x_of(time), bottom_ + 20, "middle", "font-size=\"10\"", unit_.mark(time));
    }
    const std::string device = timeline_.device.empty() ? "" : ", " + timeline_.device;
    label(right_, bottom_ + 34, "end", "font-size=\"10\"", unit_.name + device);
  }

  /// Where each of an overlay's timelines ends, and what they are.
  void layers() {
    std::string words;
    for (const std::string& line : layer_lines(timeline_, unit_.name))
      words += (words.empty() ? "" : "; ") + line;
    label(left_, top_ - 10, "start", "font-size=\"11\"", words);
    for (const TimelineLayer& layer : timeline_.layers) {
      const bool last = &layer == &timeline_.layers.back();
      line(x_of(layer.makespan), top_ - 5, x_of(layer.makespan), bottom_ + 4,
           last ? kSolidEnd : kDottedEnd);
    }
  }

  void limits() {
    if (!timeline_.layers.empty()) return layers();
    const Ticks bound = timeline_.lower_bound;
    const bool reached = bound == timeline_.makespan && bound > 0 && !timeline_.hangs;
    line(right_, top_ - 8, right_, bottom_ + 4, "stroke=\"black\" stroke-width=\"1.2\"");
    label(right_, top_ - 11, "end", "font-size=\"10\"",
          fmt::format("{} {}{}", timeline_.end_words(), unit_.number(timeline_.makespan),
                      reached ? " = lower bound" : ""));
    if (reached || bound <= 0 || bound > timeline_.makespan) return;
    line(x_of(bound), top_ - 8, x_of(bound), bottom_ + 4,
         "stroke=\"#b00000\" stroke-width=\"1.2\" stroke-dasharray=\"5 3\"");
    // Beside the line, clear of the makespan's label.
    const double room = std::min(x_of(bound) - 4, right_ - 110);
    label(room, top_ - 11, "end", "font-size=\"10\" fill=\"#b00000\"",
          "lower bound " + unit_.number(bound));
  }

  void legend() {
    double at = left_;
    const double base = bottom_ + 58;
    const auto entry = [&](const std::string& fill, const std::string& style,
                           const std::string& words) {
      text_ += fmt::format(
          "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"16\" height=\"11\" fill=\"{}\" {}/>\n", at,
          base - 9, fill, style);
      label(at + 21, base, "start", "font-size=\"10\"", words);
      at += 30 + 5.4 * static_cast<double>(words.size());
    };
    for (std::int32_t head = 0; head < chart_.heads_shown; ++head) {
      entry(fmt::format("#{}", kHeadColors[color_of(head)]), "", fmt::format("head {}", head));
    }
    if (timeline_.heads > chart_.heads_shown && chart_.heads_shown > 0) {
      label(at, base, "start", "font-size=\"10\"", "(colours repeat)");
      at += 86;
    }
    entry("#dddddd", "", chart_.merged ? "compute, or several phases" : "compute (Q tile)");
    entry("url(#reduce5)", "", "reduce into dQ");
    if (chart_.combines) entry("url(#reduce5)", "", "dK: reduce into dK, dV");
    if (!chart_.critical.empty()) {
      entry("none", "stroke=\"black\" stroke-width=\"1.4\"", "critical path");
    }
    const auto line_entry = [&](const char* style, const std::string& words) {
      line(at, base - 3.5, at + 16, base - 3.5, style);
      label(at + 21, base, "start", "font-size=\"10\"", words);
      at += 30 + 5.4 * static_cast<double>(words.size());
    };
    if (!chart_.endless.empty()) line_entry(kEndless, "waits for ever");
    if (timeline_.layers.size() > 1) line_entry(kDottedEnd, dotted_ends(timeline_));
    if (!timeline_.layers.empty()) line_entry(kSolidEnd, solid_end(timeline_));
  }

  const Timeline& timeline_;
  TimeUnit unit_;
  std::int32_t rows_;
  std::int32_t layers_;  ///< rows of an SM
  double pitch_;
  double gap_;  ///< between the rows of two SMs of an overlay
  double left_;
  double right_;
  double top_;
  InFlightCurve curve_;
  double bottom_;  ///< of the rows and the curve
  double width_;
  Chart chart_;
  std::string text_;
};

}  // namespace

std::string gantt_svg(const Timeline& timeline, const SvgOptions& options) {
  return Svg(timeline, options).draw();
}

}  // namespace stagger::sim
