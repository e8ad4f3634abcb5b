#pragma once

#include "core/table.hpp"

namespace stagger::search {

/// A table that runs in every timing model: the chains in one order, dealt to the SMs in turn. Each
/// accumulation follows that order, so that a chain waits for earlier ones only, under any release.
/// O(tasks).
[[nodiscard]] Table safe_table(const Problem& problem);

}  // namespace stagger::search
