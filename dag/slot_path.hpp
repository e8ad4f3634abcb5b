#pragma once

#include "core/table.hpp"

#include <cstdint>
#include <optional>

namespace stagger::dag {

/// The makespan of a static table in the slot model, in rounds: the longest path over the starts of
/// its chains. A chain starts when the one before it on its lane has ended, and so late that each
/// of its tasks comes after the rank before, and its end, where parts are combined in order, after
/// that of the part before. nullopt if that has a cycle of positive length: no such starts exist.
/// Requires ranks 0 … k-1 for every (head, q), and for every KV tile's parts. O(chains * tasks) at
/// worst (Bellman and Ford, by Boost.Graph).
[[nodiscard]] std::optional<std::int64_t> slot_path(const Table& table);

}  // namespace stagger::dag
