#pragma once

#include "workbench/designs/design.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace stagger::designs {

/// Something of a problem that can be another value.
struct Knob {
  const char* what;                  ///< as Turn names it
  std::vector<std::int64_t> values;  ///< that are looked at, upwards
  /// The request with another value; nullopt where it cannot have that one.
  std::optional<Request> (*with)(const Request&, std::int64_t value);
};

/// What is looked at of a problem: heads, reductions, and where it can have others KV heads, keys
/// at the beginning that every query sees and head dimensions.
[[nodiscard]] std::vector<Knob> knobs_of(const Request& request);

}  // namespace stagger::designs
