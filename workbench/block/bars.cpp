#include "workbench/block/bars.hpp"

#include "workbench/block/svg.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace stagger::block {
namespace {

constexpr double kWidth = 760;
constexpr double kLeft = 190;   ///< where bars begin
constexpr double kRight = 640;  ///< where the longest ends, if its label has room there
constexpr double kMargin = 16;
constexpr double kPitch = 21;
constexpr double kLineHeight = 15;
constexpr const char* kWorkNames[] = {"GEMM", "elementwise", "attention"};

std::string label_of(double ms, double total_ms) {
  return fmt::format("{:.3f} ms, {:.1f} %", ms, 100 * ms / total_ms);
}

class Bars {
 public:
  Bars(const std::string& title, const BlockCost& cost,
       const std::optional<Replacement>& replacement, const std::optional<Settled>& settled)
      : cost_(cost),
        replacement_(replacement),
        settled_(settled && settled->clock != cost.clock ? settled : std::nullopt),
        svg_(kWidth, 96 + kPitch * static_cast<double>(lines()) + (settled_ ? kLineHeight : 0),
             title) {
    for (const TimedKernel& kernel : cost.kernels)
      longest_ = std::max(longest_, kernel.ms);
    if (replacement) longest_ = std::max(longest_, replacement->attention_backward_ms);
    for (const TimedKernel& kernel : cost.kernels)
      make_room(kernel.ms, label_of(kernel.ms, cost.total_ms));
    if (replacement) make_room(replacement->attention_backward_ms, replaced_label());
    svg_.text(kMargin, 22, "start", title, "font-size=\"13\" font-weight=\"bold\"");
  }

  std::string draw() {
    std::optional<Pass> pass;
    for (const TimedKernel& kernel : cost_.kernels) {
      if (pass && *pass != kernel.kernel.pass) y_ += 8;
      if (pass != kernel.kernel.pass) {
        svg_.text(kMargin, y_ + 13, "start", kPassNames[static_cast<int>(kernel.kernel.pass)],
                  "font-weight=\"bold\"");
      }
      pass = kernel.kernel.pass;
      const auto work = static_cast<std::size_t>(kernel.kernel.work);
      bar(kernel.kernel.name, kernel.ms, label_of(kernel.ms, cost_.total_ms),
          fmt::format("fill=\"{}\"", color(work)));
      const bool replaced = replacement_ && kernel.kernel.work == Work::attention &&
                            kernel.kernel.pass == Pass::backward;
      if (replaced) {
        bar("replaced by", replacement_->attention_backward_ms, replaced_label(),
            fmt::format("fill=\"{}\" fill-opacity=\"0.45\" stroke=\"{}\"", color(work),
                        color(work)));
      }
    }
    legend();
    return svg_.finish();
  }

 private:
  [[nodiscard]] std::size_t lines() const { return cost_.kernels.size() + (replacement_ ? 1 : 0); }

  /// Its part of the block then, and not of the one before.
  [[nodiscard]] std::string replaced_label() const {
    return label_of(replacement_->attention_backward_ms, replacement_->total_ms) + " then";
  }

  /// Shortens all bars as far as this one's label needs to end within the picture.
  void make_room(double ms, const std::string& label) {
    constexpr double kLetter = 5.8;  ///< at most, of 10 pixels high
    const double most = kWidth - kMargin - kGap - kLetter * static_cast<double>(label.size());
    if (kLeft + (right_ - kLeft) * ms / longest_ <= most) return;
    right_ = kLeft + (most - kLeft) * longest_ / ms;
  }

  void bar(const std::string& name, double ms, const std::string& label, const std::string& style) {
    svg_.text(kLeft - 8, y_ + 13, "end", name);
    const double width = std::max(0.5, (right_ - kLeft) * ms / longest_);
    svg_.rect(kLeft, y_ + 2, width, kPitch - 5, style);
    svg_.text(kLeft + width + kGap, y_ + 13, "start", label, "font-size=\"10\"");
    y_ += kPitch;
  }

  void legend() {
    double x = kMargin;
    const double y = y_ + 28;
    for (std::size_t work = 0; work < std::size(kWorkNames); ++work) {
      svg_.rect(x, y - 9, 16, 11, fmt::format("fill=\"{}\"", color(work)));
      svg_.text(x + 21, y, "start", kWorkNames[work], "font-size=\"10\"");
      x += 100;
    }
    std::string words = fmt::format("block {:.3f} ms", cost_.total_ms);
    if (replacement_) {
      words += fmt::format(", then {:.3f} ms: {:.3f} times as fast", replacement_->total_ms,
                           replacement_->block_speedup);
    }
    svg_.text(kWidth - kMargin, y, "end", words);
    if (!settled_) return;
    svg_.text(kWidth - kMargin, y + kLineHeight, "end",
              fmt::format("at its own clock {:.3f} ms: {:.3f} times as fast", settled_->total_ms,
                          settled_->block_speedup));
  }

  static constexpr double kGap = 5;  ///< between a bar and its label

  const BlockCost& cost_;
  const std::optional<Replacement>& replacement_;
  std::optional<Settled> settled_;  ///< absent: the clock is that of the block before
  Svg svg_;
  double longest_ = 1e-9;
  double right_ = kRight;
  double y_ = 36;
};

}  // namespace

std::string bars_svg(const std::string& title, const BlockCost& cost,
                     const std::optional<Replacement>& replacement,
                     const std::optional<Settled>& settled) {
  return Bars(title, cost, replacement, settled).draw();
}

}  // namespace stagger::block
