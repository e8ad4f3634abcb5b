#pragma once

#include "core/table.hpp"

#include <cstdint>

namespace stagger {

/// In which orders the heads of a table are added up.
struct HeadOrders {
  std::uint64_t digest = 0;   ///< of all heads' orders, one after the other
  std::uint64_t first = 0;    ///< of the first part's
  std::int32_t distinct = 0;  ///< how many there are
};

/// What the bits of the gradients depend on beside numbers and arithmetic: of every part of the
/// heads, for each Q tile of each of its heads the KV tiles by rank, and for each KV tile the heads
/// and Q tiles along its chain. Lanes, dispatch and SMs are not in it, nor is what the other heads
/// do. Requires tasks of the problem and ranks that are orders. O(tasks).
[[nodiscard]] HeadOrders head_orders(const Table& table);

/// A number that two plans share if, given the same numbers, they leave the same bits: of the
/// orders, and of what else the arithmetic is made of.
[[nodiscard]] std::uint64_t order_digest(const Table& table, std::int32_t numerics,
                                         std::int64_t head_dim);
/// That number where the table's orders are known already. O(chains).
[[nodiscard]] std::uint64_t order_digest(const Table& table, const HeadOrders& orders,
                                         std::int32_t numerics, std::int64_t head_dim);

}  // namespace stagger
