#include "sim/gantt_tikz.hpp"

#include "sim/chart.hpp"
#include "sim/in_flight.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace stagger::sim {
namespace {

constexpr std::size_t kMostTikzShapes =
    6'000;  ///< TeX's main memory takes about three times as many
constexpr int kTikzCurveColumns = 200;
constexpr double kTikzCurveHeight = 1.2;  ///< cm

std::string escape(const std::string& text) {
  std::string escaped;
  constexpr std::string_view kMicro = "µ";
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char letter = text[at];
    const auto code = static_cast<unsigned char>(letter);
    if (std::string_view(text).substr(at).starts_with(kMicro)) {
      escaped += "$\\mu$";
      at += kMicro.size() - 1;
      continue;
    }
    if (std::string("#$%&_{}").find(letter) != std::string::npos) {
      escaped += std::string("\\") + letter;
    } else if (letter == '\\') {
      escaped += "\\textbackslash{}";
    } else if (letter == '^' || letter == '~') {
      escaped += fmt::format("\\{}{{}}", letter);
    } else if (code >= 0x20 && code < 0x7f) {
      escaped += letter;
    } else if (code >= 0xc0 || code < 0x20) {
      escaped += '?';  // one for each character beyond ASCII
    }
  }
  return escaped;
}

class Tikz {
 public:
  Tikz(const Timeline& timeline, const TikzOptions& options)
      : timeline_(timeline),
        unit_(unit_of(timeline)),
        rows_(static_cast<std::int32_t>(std::clamp<std::int64_t>(timeline.rows(), 1, kMostRows))),
        layers_(timeline.rows_per_sm()),
        pitch_(std::clamp(20.0 / rows_, 0.12, 0.62)),
        gap_(layers_ > 1 ? 0.35 * pitch_ : 0),
        width_(options.width_cm),
        curve_(in_flight_curve(timeline, kTikzCurveColumns)),
        chart_(chart_within(timeline, 0.001, kMostTikzShapes)) {}

  std::string draw() {
    preamble();
    line(fmt::format("\\node[anchor=south west,font=\\bfseries\\small] at (0,{:.3f}) {{{}}};", 0.55,
                     escape(timeline_.title)));
    rows();
    for (const Box& box : chart_.boxes)
      draw_box(box);
    critical_path();
    endless();
    if (!curve_.empty()) curve();
    axis();
    limits();
    legend();
    return text_ + "\\end{tikzpicture}\n\\end{document}\n";
  }

 private:
  void line(const std::string& words) { text_ += words + "\n"; }
  [[nodiscard]] double x(double part) const { return part * width_; }
  [[nodiscard]] double x_of(Ticks time) const {
    return x(static_cast<double>(time) /
             static_cast<double>(std::max<Ticks>(timeline_.makespan, 1)));
  }
  /// The middle of a row; rows go down from 0.
  [[nodiscard]] double y(std::int32_t row) const {
    const std::int32_t sm = row / layers_;
    return -(row + 0.5) * pitch_ - sm * gap_;
  }
  /// The bottom of the rows and of the curve below them.
  [[nodiscard]] double bottom() const {
    return y(rows_ - 1) - 0.5 * pitch_ - (curve_.empty() ? 0 : kTikzCurveHeight + 0.55);
  }

  void preamble() {
    line("\\IfFileExists{standalone.cls}{\\documentclass[border=3pt]{standalone}}{%");
    line("  \\documentclass{article}");
    line(fmt::format(
        "  \\usepackage[paperwidth={:.1f}cm,paperheight={:.1f}cm,margin=4mm]{{geometry}}",
        width_ + 4, 4.5 - bottom()));
    line("  \\pagestyle{empty}\\parindent=0pt}");
    line("\\usepackage{tikz}\n\\usetikzlibrary{patterns}");
    for (std::size_t color = 0; color < kHeadColors.size(); ++color) {
      for (const auto& [name, value] :
           {std::pair{"head", kHeadColors[color]}, std::pair{"reduce", kReduceColors[color]}}) {
        std::string upper = value;
        std::transform(upper.begin(), upper.end(), upper.begin(), [](char letter) {
          return letter >= 'a' ? static_cast<char>(letter - 'a' + 'A') : letter;
        });
        line(fmt::format("\\definecolor{{{}{}}}{{HTML}}{{{}}}", name, color, upper));
      }
    }
    line("\\begin{document}\n\\begin{tikzpicture}[font=\\scriptsize,inner sep=1pt]");
  }

  void rows() {
    const int every = pitch_ >= 0.3 ? 1 : pitch_ >= 0.18 ? 4 : 8;
    for (std::int32_t row = 0; row < timeline_.rows(); ++row) {
      line(fmt::format("\\draw[gray!60,dotted] (0,{0:.3f}) -- ({1:.3f},{0:.3f});", y(row), width_));
      name_row(row, every);
    }
  }

  void name_row(std::int32_t row, int every) {
    const std::int32_t sm = row / layers_;
    const std::int32_t layer = row % layers_;
    if (layers_ > 1 && pitch_ >= 0.2) {
      line(fmt::format("\\node[anchor=east,font=\\tiny,gray] at (-0.04,{:.3f}) {{{}}};", y(row),
                       timeline_.layers[at(layer)].tag));
    }
    if (layer > 0 || (sm % every != 0 && row + layers_ < timeline_.rows())) return;
    line(fmt::format("\\node[anchor=east] at ({},{:.3f}) {{SM {}}};", layers_ > 1 ? -0.24 : -0.08,
                     (y(row) + y(row + layers_ - 1)) / 2, sm));
  }

  struct Frame {
    double bottom = 0;
    double top = 0;
  };

  [[nodiscard]] Frame frame_of(const Box& box) const {
    const double half = pitch_ * (pitch_ > 0.25 ? 0.43 : 0.47);
    if (!chart_.split_rows) return {y(box.row) - half, y(box.row) + half};
    if (box.style != BoxStyle::reduce) return {y(box.row) - 0.12 * half, y(box.row) + half};
    return {y(box.row) - half, y(box.row) - 0.2 * half};
  }

  void draw_box(const Box& box) {
    const Frame frame = frame_of(box);
    const std::size_t color = color_of(box.head);
    const std::string corners = fmt::format("({:.4f},{:.4f}) rectangle ({:.4f},{:.4f})",
                                            x(box.begin), frame.bottom, x(box.end), frame.top);
    if (box.style == BoxStyle::reduce) {
      line(fmt::format("\\fill[reduce{}] {};", color, corners));
      if (!chart_.merged) {
        line(fmt::format("\\fill[pattern=north east lines,pattern color=white] {};", corners));
      }
      return;
    }
    line(fmt::format(
        "\\fill[{}] {};",
        box.style == BoxStyle::overhead ? std::string("gray") : fmt::format("head{}", color),
        corners));
    const bool fits =
        frame.top - frame.bottom > 0.2 &&
        x(box.end) - x(box.begin) > 0.13 * static_cast<double>(box.label.size()) + 0.02;
    if (!box.label.empty() && fits) {
      line(fmt::format("\\node at ({:.4f},{:.4f}) {{{}}};", x((box.begin + box.end) / 2),
                       (frame.bottom + frame.top) / 2, box.label));
    }
  }

  void critical_path() {
    for (const Box& box : chart_.critical) {
      const Frame frame = frame_of(box);
      line(fmt::format("\\draw[line width=0.7pt] ({:.4f},{:.4f}) rectangle ({:.4f},{:.4f});",
                       x(box.begin), frame.bottom, x(box.end), frame.top));
    }
    for (const Hop& hop : chart_.hops) {
      line(fmt::format("\\draw[line width=0.7pt] ({:.4f},{:.4f}) -- ({:.4f},{:.4f});", x(hop.from),
                       y(hop.from_row), x(hop.to), y(hop.to_row)));
    }
  }

  /// A dashed line and a cross for what waits for ever.
  void endless() {
    for (const auto& [row, begin] : chart_.endless) {
      line(
          fmt::format("\\draw[red,dashed] ({0:.4f},{1:.3f}) -- ({2:.4f},{1:.3f}) "
                      "node[right] {{$\\times$}};",
                      x_of(begin), y(row), width_));
    }
  }

  /// dQ tiles in flight, over the same times.
  void curve() {
    const auto height_of = [&](std::int64_t bytes) {
      return bottom() +
             kTikzCurveHeight * static_cast<double>(bytes) / static_cast<double>(curve_.most);
    };
    std::string path = fmt::format("(0,{:.3f})", bottom());
    for (std::size_t column = 0; column < curve_.columns.size(); ++column) {
      for (const std::size_t edge : {column, column + 1}) {
        path +=
            fmt::format(" -- ({:.3f},{:.3f})",
                        x(static_cast<double>(edge) / static_cast<double>(curve_.columns.size())),
                        height_of(curve_.columns[column]));
      }
    }
    line(fmt::format("\\fill[black!35] {} -- ({:.3f},{:.3f}) -- cycle;", path, width_, bottom()));
    line(fmt::format("\\node[anchor=east] at (-0.08,{:.3f}) {{dQ}};",
                     bottom() + kTikzCurveHeight / 2));
    line(fmt::format("\\node[anchor=south west] at (0,{:.3f}) {{{}}};",
                     bottom() + kTikzCurveHeight + 0.06, escape(curve_.words)));
    if (!curve_.shows_l2()) return;
    line(fmt::format("\\draw[red,dashed] (0,{0:.3f}) -- ({1:.3f},{0:.3f}) node[right] {{L2}};",
                     height_of(curve_.l2), width_));
  }

  void axis() {
    const double base = bottom() - 0.1;
    line(fmt::format("\\draw (0,{0:.3f}) -- ({1:.3f},{0:.3f});", base, width_));
    for (const Ticks time : chart_.axis) {
      line(fmt::format("\\draw ({0:.4f},{1:.3f}) -- ++(0,-0.1) node[below] {{{2}}};", x_of(time),
                       base, unit_.mark(time)));
    }
    const std::string unit =
        unit_.name + (timeline_.device.empty() ? std::string() : ", " + timeline_.device);
    line(fmt::format("\\node[anchor=north east] at ({:.3f},{:.3f}) {{{}}};", width_, base - 0.5,
                     escape(unit)));
  }

  /// Where each of an overlay's timelines ends, and what they are.
  void layers() {
    std::string words;
    for (const std::string& text : layer_lines(timeline_, unit_.name))
      words += (words.empty() ? "" : "; ") + text;
    line(fmt::format("\\node[anchor=south west] at (0,0.16) {{{}}};", escape(words)));
    for (const TimelineLayer& layer : timeline_.layers) {
      const bool last = &layer == &timeline_.layers.back();
      line(fmt::format("\\draw[thick{0}] ({1:.3f},0.1) -- ({1:.3f},{2:.3f});",
                       last ? "" : ",densely dotted", x_of(layer.makespan), bottom() - 0.1));
    }
  }

  void limits() {
    if (!timeline_.layers.empty()) return layers();
    const Ticks bound = timeline_.lower_bound;
    const bool reached = bound == timeline_.makespan && bound > 0 && !timeline_.hangs;
    line(fmt::format("\\draw[thick] ({0:.3f},0.15) -- ({0:.3f},{1:.3f});", width_, bottom() - 0.1));
    line(fmt::format("\\node[anchor=south east] at ({:.3f},0.16) {{{} {}{}}};", width_,
                     timeline_.end_words(), unit_.number(timeline_.makespan),
                     reached ? " = lower bound" : ""));
    if (reached || bound <= 0 || bound > timeline_.makespan) return;
    line(fmt::format("\\draw[thick,dashed,red!70!black] ({0:.3f},0.15) -- ({0:.3f},{1:.3f});",
                     x_of(bound), bottom() - 0.1));
    line(fmt::format("\\node[anchor=south east,red!70!black] at ({:.3f},0.16) {{lower bound {}}};",
                     std::min(x_of(bound) - 0.05, width_ - 2.4), unit_.number(bound)));
  }

  void legend() {
    double at = 0;
    const double base = bottom() - 1.25;
    const auto entry = [&](const std::string& style, const std::string& words) {
      line(fmt::format("\\path[{}] ({:.3f},{:.3f}) rectangle ++(0.35,0.22);", style, at, base));
      line(fmt::format("\\node[anchor=base west] at ({:.3f},{:.3f}) {{{}}};", at + 0.4, base + 0.03,
                       words));
      at += 0.75 + 0.14 * static_cast<double>(words.size());
    };
    for (std::int32_t head = 0; head < chart_.heads_shown; ++head) {
      entry(fmt::format("fill=head{}", color_of(head)), fmt::format("head {}", head));
    }
    entry("fill=gray!30", chart_.merged ? "compute, or several phases" : "compute (Q tile)");
    const char* const reduction =
        "preaction={fill=reduce5},pattern=north east lines,pattern color=white";
    entry(reduction, "reduce into dQ");
    if (chart_.combines) entry(reduction, "dK: reduce into dK, dV");
    if (!chart_.critical.empty()) entry("draw,line width=0.7pt", "critical path");
    if (!chart_.endless.empty()) {
      entry("draw=red,dashed", "waits for ever");
    }
    const auto line_entry = [&](const char* style, const std::string& words) {
      line(fmt::format("\\draw[{}] ({:.3f},{:.3f}) -- ++(0.35,0);", style, at, base + 0.11));
      line(fmt::format("\\node[anchor=base west] at ({:.3f},{:.3f}) {{{}}};", at + 0.4, base + 0.03,
                       words));
      at += 0.75 + 0.14 * static_cast<double>(words.size());
    };
    if (timeline_.layers.size() > 1) line_entry("thick,densely dotted", dotted_ends(timeline_));
    if (!timeline_.layers.empty()) line_entry("thick", solid_end(timeline_));
  }

  const Timeline& timeline_;
  TimeUnit unit_;
  std::int32_t rows_;
  std::int32_t layers_;  ///< rows of an SM
  double pitch_;
  double gap_;  ///< between the rows of two SMs of an overlay
  double width_;
  InFlightCurve curve_;
  Chart chart_;
  std::string text_;
};

}  // namespace

std::string gantt_tikz(const Timeline& timeline, const TikzOptions& options) {
  return Tikz(timeline, options).draw();
}

}  // namespace stagger::sim
