#pragma once

#include "cli/analysis.hpp"
#include "core/timeline.hpp"

namespace stagger::cli {

/// The predicted timeline of an analysis, with its critical path marked and its bound. Of a table
/// that deadlocks, what runs until nothing moves. Throws Error{usage} for an invalid table.
[[nodiscard]] Timeline timeline_of(const Analysis& analysis);

}  // namespace stagger::cli
