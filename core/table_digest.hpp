#pragma once

#include "core/table.hpp"

#include <cstdint>

namespace stagger {

/// A number that tables share if they are alike but for the names of heads and tiles: it is made of
/// lanes and dispatch, and of every slot's rank, whether its tile is partial, and which of its
/// KV head's KV tiles and its head's Q tiles it is in the order of their first slots; where heads
/// share K and V, of span, combination and ranks of dK and dV too. No timing model of one machine
/// tells such tables of one problem apart, with the same release and residency. Requires tasks of
/// the problem. O(slots), and 4 bytes for every head's KV and Q tile.
[[nodiscard]] std::uint64_t table_digest(const Table& table);

}  // namespace stagger
