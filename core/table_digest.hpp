#pragma once

#include "core/table.hpp"

#include <cstdint>

namespace stagger {

/// The same for tables that are alike but for the names of heads and tiles: lanes and dispatch, and
/// of every slot which of its head's KV and Q tiles it is in the order of their first slots, its
/// rank, and whether its tile is partial. No timing model of one machine tells such tables of
/// one problem apart, with the same release and residency. Requires tasks of the problem. O(slots),
/// and 4 bytes for every head's KV and Q tile.
[[nodiscard]] std::uint64_t table_digest(const Table& table);

}  // namespace stagger
