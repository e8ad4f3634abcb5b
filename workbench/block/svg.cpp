#include "workbench/block/svg.hpp"

#include "core/printable.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace stagger::block {
Svg::Svg(double width, double height, const std::string& title)
    : text_(fmt::format(
          "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
          "viewBox=\"0 0 {0:.0f} {1:.0f}\" font-family=\"Helvetica, Arial, sans-serif\" "
          "font-size=\"11\">\n<title>{2}</title>\n<rect width=\"100%\" height=\"100%\" "
          "fill=\"white\"/>\n",
          width, height, printable_xml(title))) {}

void Svg::rect(double x, double y, double width, double height, const std::string& style) {
  text_ += fmt::format("<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" {}/>\n",
                       x, y, width, height, style);
}

void Svg::line(double x1, double y1, double x2, double y2, const std::string& style) {
  text_ += fmt::format("<line x1=\"{:.2f}\" y1=\"{:.2f}\" x2=\"{:.2f}\" y2=\"{:.2f}\" {}/>\n", x1,
                       y1, x2, y2, style);
}

void Svg::path(const std::string& points, const std::string& style) {
  text_ += fmt::format("<path d=\"{}\" {}/>\n", points, style);
}

void Svg::text(double x, double y, const char* anchor, const std::string& words,
               const std::string& style) {
  text_ += fmt::format("<text x=\"{:.2f}\" y=\"{:.2f}\" text-anchor=\"{}\"{}{}>{}</text>\n", x, y,
                       anchor, style.empty() ? "" : " ", style, printable_xml(words));
}

std::string Svg::finish() {
  return text_ + "</svg>\n";
}

double round_step(double range, int count) {
  const double rough = range / count;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough) return factor * power;
  }
  return 10 * power;
}

const char* color(std::size_t index) {
  constexpr std::array kColors = {"#0072b2", "#e69f00", "#009e73", "#cc79a7",
                                  "#56b4e9", "#d55e00", "#f0e442"};
  return kColors[index % kColors.size()];
}

}  // namespace stagger::block
