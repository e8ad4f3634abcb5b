#pragma once

#include "schedules/schedule.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stagger::schedules {

/// A schedule's own parameters, and what every schedule has.
[[nodiscard]] std::vector<Parameter> parameters_of(const Schedule& schedule);

/// Reads `key=value,key=value`, each key once and of those known; what is not given has its
/// fallback. `owner` is whose parameters they are. Throws Error{usage}, naming what is known.
[[nodiscard]] Parameters read_parameters(std::string_view text, const std::string& owner,
                                         std::span<const Parameter> known);

/// `windowed:heads=16,q=descending`: a schedule and its parameters that are not at their defaults.
[[nodiscard]] std::string words_of(const Schedule& schedule, const Parameters& parameters);

}  // namespace stagger::schedules
