#include "cli/profile.hpp"

#include "cli/files.hpp"
#include "core/error.hpp"
#include "core/files.hpp"

#include <fmt/format.h>

#include <filesystem>

namespace stagger::cli {

bool is_same_device(const Machine& one, const Machine& other) {
  return one.device == other.device && one.driver == other.driver && one.sms == other.sms;
}

std::string device_text(const Machine& machine) {
  return fmt::format("{} ({} SMs{}{})", machine.device, machine.sms,
                     machine.driver.empty() ? "" : ", CUDA ", machine.driver);
}

Machine profile_for(const std::string& path, const Machine& device) {
  if (path == "-" || !std::filesystem::exists(path)) {
    return {.name = path == "-" ? "machine" : std::filesystem::path(path).stem().string(),
            .device = device.device,
            .driver = device.driver,
            .sms = device.sms};
  }
  Machine machine = read_machine_json(read_file(path), path);
  if (is_same_device(machine, device)) return machine;
  throw Error(ErrorKind::usage,
              fmt::format("{} is of {}, and what was measured is of {}: give another file", path,
                          device_text(machine), device_text(device)));
}

}  // namespace stagger::cli
