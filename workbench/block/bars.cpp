#include "workbench/block/bars.hpp"

#include "workbench/block/svg.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace stagger::block {
namespace {

constexpr double kWidth = 760;
constexpr double kLeft = 190;   ///< where bars begin
constexpr double kRight = 640;  ///< where the longest ends
constexpr double kPitch = 21;
constexpr const char* kWorkNames[] = {"GEMM", "elementwise", "attention"};

class Bars {
 public:
  Bars(const std::string& title, const BlockCost& cost,
       const std::optional<Replacement>& replacement)
      : cost_(cost),
        replacement_(replacement),
        svg_(kWidth, 96 + kPitch * static_cast<double>(lines()), title) {
    for (const TimedKernel& kernel : cost.kernels)
      longest_ = std::max(longest_, kernel.ms);
    if (replacement) longest_ = std::max(longest_, replacement->attention_backward_ms);
    svg_.text(16, 22, "start", title, "font-size=\"13\" font-weight=\"bold\"");
  }

  std::string draw() {
    std::optional<Pass> pass;
    for (const TimedKernel& kernel : cost_.kernels) {
      if (pass && *pass != kernel.kernel.pass) y_ += 8;
      if (pass != kernel.kernel.pass) {
        svg_.text(16, y_ + 13, "start", kPassNames[static_cast<int>(kernel.kernel.pass)],
                  "font-weight=\"bold\"");
      }
      pass = kernel.kernel.pass;
      const auto work = static_cast<std::size_t>(kernel.kernel.work);
      bar(kernel.kernel.name, kernel.ms, fmt::format("fill=\"{}\"", color(work)));
      const bool replaced = replacement_ && kernel.kernel.work == Work::attention &&
                            kernel.kernel.pass == Pass::backward;
      if (replaced) {
        bar("replaced by", replacement_->attention_backward_ms,
            fmt::format("fill=\"{}\" fill-opacity=\"0.45\" stroke=\"{}\"", color(work),
                        color(work)));
      }
    }
    legend();
    return svg_.finish();
  }

 private:
  [[nodiscard]] std::size_t lines() const { return cost_.kernels.size() + (replacement_ ? 1 : 0); }

  void bar(const std::string& name, double ms, const std::string& style) {
    svg_.text(kLeft - 8, y_ + 13, "end", name);
    const double width = std::max(0.5, (kRight - kLeft) * ms / longest_);
    svg_.rect(kLeft, y_ + 2, width, kPitch - 5, style);
    svg_.text(kLeft + width + 5, y_ + 13, "start",
              fmt::format("{:.3f} ms, {:.1f} %", ms, 100 * ms / cost_.total_ms),
              "font-size=\"10\"");
    y_ += kPitch;
  }

  void legend() {
    double x = 16;
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
    svg_.text(kWidth - 16, y, "end", words);
  }

  const BlockCost& cost_;
  const std::optional<Replacement>& replacement_;
  Svg svg_;
  double longest_ = 1e-9;
  double y_ = 36;
};

}  // namespace

std::string bars_svg(const std::string& title, const BlockCost& cost,
                     const std::optional<Replacement>& replacement) {
  return Bars(title, cost, replacement).draw();
}

}  // namespace stagger::block
