#pragma once

#include "cli/expect.hpp"
#include "cli/terminal.hpp"
#include "core/json.hpp"
#include "workbench/block/overlap.hpp"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace stagger::cli {

/// What is predicted of dropout beside GEMMs: at one shape, at many, or at a ratio alone.
struct OverlapReport {
  block::Calibration calibration;
  block::RngChoice rng;
  std::int64_t head_dim = 128;
  std::int64_t layers = 1;
  double dropout = 0;
  block::Borders borders = {};
  std::vector<block::Overlap> points = {};  ///< one, or those of a sweep
  bool swept = false;
  std::optional<double> x = std::nullopt;  ///< no shape, this ratio
  double x_speedup = 0;                    ///< at that

  /// Whether the backward pass counts too.
  [[nodiscard]] bool both() const { return !points.empty() && points.front().backward; }
};

[[nodiscard]] std::string overlap_title(const OverlapReport& report);

/// Schema `stagger.overlap/1`.
[[nodiscard]] Json overlap_json(const OverlapReport& report, std::span<const Judgement> judgements);
[[nodiscard]] std::string overlap_text(const OverlapReport& report, const Terminal& terminal);

}  // namespace stagger::cli
