#include "cli/profile.hpp"

#include "cli/files.hpp"
#include "core/error.hpp"
#include "core/files.hpp"

#include <fmt/format.h>

#include <filesystem>

namespace stagger::cli {
namespace {

/// `NVIDIA H200 (132 SMs, CUDA 13.0)`; a profile that nobody measured has no driver.
std::string device_text(const Machine& machine) {
  return fmt::format("{} ({} SMs{}{})", machine.device, machine.sms,
                     machine.driver.empty() ? "" : ", CUDA ", machine.driver);
}

}  // namespace

Machine profile_for(const std::string& path, const Machine& device) {
  if (path == "-" || !std::filesystem::exists(path)) {
    return {.name = path == "-" ? "machine" : std::filesystem::path(path).stem().string(),
            .device = device.device,
            .driver = device.driver,
            .sms = device.sms};
  }
  Machine machine = read_machine_json(read_file(path), path);
  if (machine.device == device.device && machine.driver == device.driver &&
      machine.sms == device.sms) {
    return machine;
  }
  throw Error(ErrorKind::usage,
              fmt::format("{} is of {}, and what was measured is of {}: give another file", path,
                          device_text(machine), device_text(device)));
}

}  // namespace stagger::cli
