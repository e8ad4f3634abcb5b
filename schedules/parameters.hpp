#pragma once

#include "schedules/schedule.hpp"

#include <span>
#include <string>
#include <string_view>

namespace stagger::schedules {

/// Reads `key=value,key=value`, each key once and of those known; what is not given has its
/// fallback. `owner` is whose parameters they are. Throws Error{usage}, naming what is known.
[[nodiscard]] Parameters read_parameters(std::string_view text, const std::string& owner,
                                         std::span<const Parameter> known);

}  // namespace stagger::schedules
