#pragma once

#include "core/table.hpp"
#include "core/timing.hpp"
#include "schedules/search/rating.hpp"

#include <optional>

namespace stagger::workbench {

/// Returns the rating of a table as `sim` plays it, with the memory if there is one; nullopt if it
/// hangs. A search rates its tables by a player of its own (schedules/search/evaluate.hpp).
[[nodiscard]] std::optional<search::Rating> played_rating(const Table& table, const Timing& timing);

}  // namespace stagger::workbench
