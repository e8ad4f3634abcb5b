#pragma once

#include "core/machine.hpp"
#include "workbench/calibration/calibration.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace stagger::workbench {

/// Writes schema `stagger.calibration/1`: a device with a kernel's entry of its profile, what that
/// was found by, and what it predicts of it.
[[nodiscard]] std::string write_calibration(const Machine& device, const Evidence& evidence,
                                            const Calibration& calibration);

/// A kernel's evidence, and the device that it is of: no kernels, memory or blocks.
struct MeasuredKernel {
  Machine device;
  Evidence evidence;
};

/// Reads the `stagger.calibration/1` documents of a text, one or several one after the other: what
/// was measured, not what was found by it. The tables are made again. Throws Error{invalid_input}
/// with the path of what is wrong; where a table is another by now, too, or has no evidence as
/// those before it had not.
[[nodiscard]] std::vector<MeasuredKernel> read_calibrations(std::string_view text,
                                                            const std::string& source);

}  // namespace stagger::workbench
