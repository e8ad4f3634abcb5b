#pragma once

#include "core/timeline.hpp"
#include "workbench/analysis.hpp"

namespace stagger::cli {

/// The predicted timeline of an analysis, with its critical path marked and its bound. Of a table
/// that deadlocks, what runs until nothing moves. Throws Error{usage} for an invalid table.
[[nodiscard]] Timeline timeline_of(const workbench::Analysis& analysis);

}  // namespace stagger::cli
