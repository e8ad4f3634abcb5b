#include "cli/calibrate_measured.hpp"

#include "cli/commands.hpp"
#include "cli/files.hpp"
#include "cli/profile.hpp"
#include "cli/progress.hpp"
#include "cli/report/calibration.hpp"
#include "cli/terminal.hpp"
#include "core/error.hpp"
#include "core/files.hpp"
#include "workbench/calibration/evidence_file.hpp"

#include <fmt/format.h>

#include <string>
#include <vector>

namespace stagger::cli {
namespace {

/// Throws Error{usage} unless all were measured on one device.
void expect_one_device(const std::vector<workbench::MeasuredKernel>& kernels,
                       const std::string& path) {
  const Machine& first = kernels.front().device;
  for (const workbench::MeasuredKernel& each : kernels) {
    if (is_same_device(each.device, first)) continue;
    throw Error(ErrorKind::usage, fmt::format("{} is of {} and of {}: a profile is of one device",
                                              path, device_text(first), device_text(each.device)));
  }
}

}  // namespace

int calibrate_measured(const Options& options) {
  const std::string& path = options.measured_kernels;
  const auto kernels = workbench::read_calibrations(read_file(path), path);
  expect_one_device(kernels, path);
  Machine machine = profile_for(options.output, kernels.front().device);
  std::string report;
  Progress progress;
  for (const workbench::MeasuredKernel& kernel : kernels) {
    const workbench::Evidence& evidence = kernel.evidence;
    progress.show("fitting", static_cast<double>(&kernel - kernels.data()) /
                                 static_cast<double>(kernels.size()));
    workbench::Calibration found = workbench::calibrate(evidence);
    found.times.command = fmt::format("stagger calibrate --measured {}", path);
    put(machine, found.times);
    report += options.json ? workbench::write_calibration(machine, evidence, found)
                           : calibration_text(machine, found.times);
  }
  progress.end();
  write_file(options.output, write_machine_json(machine));
  if (options.output == "-") return kHolds;
  if (options.json) {
    write_stdout(report);
  } else {
    write_text(report, terminal_of(options));
  }
  return kHolds;
}

}  // namespace stagger::cli
