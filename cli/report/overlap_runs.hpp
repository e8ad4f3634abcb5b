#pragma once

#include "core/json.hpp"
#include "workbench/calibration/overlap_runs.hpp"

#include <cstddef>
#include <string>

namespace stagger::cli {

/// What a device took for GEMMs and bits, and the calibration by one way to have both.
struct OverlapRunsReport {
  workbench::OverlapRuns runs;
  std::size_t way = 0;  ///< by workbench::beside_ways()
  block::Calibration calibration = {};
};

/// Schema `stagger.overlap-runs/1`: every time, the constants, and how far off they are.
[[nodiscard]] Json overlap_runs_json(const OverlapRunsReport& report);
[[nodiscard]] std::string overlap_runs_text(const OverlapRunsReport& report);

}  // namespace stagger::cli
