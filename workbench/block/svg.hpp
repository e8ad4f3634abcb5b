#pragma once

#include <string>

namespace stagger::block {

/// An SVG document that grows from above.
class Svg {
 public:
  Svg(double width, double height, const std::string& title);

  void rect(double x, double y, double width, double height, const std::string& style);
  void line(double x1, double y1, double x2, double y2, const std::string& style);
  void path(const std::string& points, const std::string& style);
  /// `anchor` is start, middle or end.
  void text(double x, double y, const char* anchor, const std::string& words,
            const std::string& style = "");

  /// The whole document.
  [[nodiscard]] std::string finish();

 private:
  std::string text_;
};

/// Returns a round number, 1, 2 or 5 times a power of ten, that fits `count` times into a range, >
/// 0, or somewhat less often.
[[nodiscard]] double round_step(double range, int count);

/// Colours that colour-blind readers can tell apart, as `#rrggbb`, again from the first after the
/// seventh. Source: the palette of Okabe and Ito.
[[nodiscard]] const char* color(std::size_t index);

}  // namespace stagger::block
