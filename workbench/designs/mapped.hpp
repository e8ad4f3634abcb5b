#pragma once

#include "schedules/schedule.hpp"

#include <optional>
#include <string>

namespace stagger::designs {

/// A schedule and its table for the problem that a design makes of another.
struct Played {
  schedules::Selection schedule;
  Table table;
};

/// A problem of a grid of its own, a tile a token: the mask is the grid.
[[nodiscard]] Problem problem_of_grid(const TileGrid& grid, std::int64_t heads, std::int64_t sms,
                                      const Grouping& grouping);

/// The given schedule's table, or the shortest of all that search nothing and apply. Throws
/// Error{unsupported} if the given one does not.
[[nodiscard]] Played play_schedule(const std::optional<schedules::Selection>& given,
                                   const Problem& problem, const Timing& timing);

}  // namespace stagger::designs
