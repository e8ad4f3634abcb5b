#pragma once

#include "workbench/calibration/calibration.hpp"
#include "workbench/calibration/memory_fit.hpp"

#include <string>
#include <vector>

namespace stagger::cli {

/// A kernel's phases with their quartiles, and how well they predict the runs.
[[nodiscard]] std::string calibration_text(const Machine& machine, const KernelTimes& times);

/// The memory of a profile that has one.
[[nodiscard]] std::string memory_text(const Machine& machine);

/// Schema `stagger.calibration/1`: the profile's memory, and each run that it was found by.
[[nodiscard]] std::string memory_json(const Machine& machine,
                                      const std::vector<workbench::MemoryRun>& runs,
                                      const std::vector<workbench::Residual>& residuals);

}  // namespace stagger::cli
