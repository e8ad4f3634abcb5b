#pragma once

#include "core/table.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace stagger::search {

/// A task and its round in time.
struct RoundTime {
  Task task;
  std::int64_t round = 0;
};

/// A schedule of the slot model, in any order.
using RoundTimes = std::vector<RoundTime>;

/// The static table of a schedule: chains go to the SM that is free, ranks follow the rounds, those
/// of parts the rounds in which their chains end.
/// Throws Error{invalid_input}, naming `source`, if a task is missing, there twice or not live, if
/// a chain's rounds do not follow one another, if two tasks of a dQ tile share one, if two chains
/// that are added to one dK and dV in turn end in one, or if more than S chains run at once.
/// O(tasks log tasks).
[[nodiscard]] Table table_of(const Problem& problem, RoundTimes times, const std::string& source);

}  // namespace stagger::search
