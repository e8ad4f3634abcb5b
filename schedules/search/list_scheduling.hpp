#pragma once

#include "core/table.hpp"
#include "core/timing.hpp"
#include "schedules/search/chain.hpp"

#include <cstddef>
#include <optional>

namespace stagger::search {

/// Which chain a free SM takes.
enum class ChainOrder {
  longest_by_head,  ///< the longest one left; of equals head by head, so that a head's run together
  longest_by_kv,    ///< the longest one left; of equals the heads in turn, so that they spread
  launch_order,     ///< heads in order, KV tiles ascending
  reverse_order,    ///< heads in order, KV tiles descending
};

/// Which Q tile an SM takes of those that may reduce soonest.
enum class QOrder {
  cyclic,        ///< the next one after the last taken, the first being the KV tile's place
  ascending,     ///< the lowest
  descending,    ///< the highest
  most_awaited,  ///< the one with the most contributions still to come
};

inline constexpr std::size_t kQOrders = 4;

struct ListRule {
  ChainOrder chains = ChainOrder::longest_by_head;
  QOrder q = QOrder::cyclic;
  /// Parts (heads, if a chain has one) are taken in windows of so many: no chain of a window before
  /// the last of the window before has been taken. 0: one window holds them all.
  std::int32_t window = 0;
};

/// List scheduling in the timing model itself: whenever an SM can take a task, it takes the one of
/// its chain whose reduction can start soonest, and that is next in the accumulation order; a chain
/// of several heads goes head by head. The table is static and cannot deadlock under immediate
/// release: lanes and accumulation orders both follow the order in which tasks were taken.
/// O(tasks * log S) as long as some task of a chain need not wait for its turn, O(tasks * longest
/// chain) where all have to. Source: Graham 1969, list scheduling.
[[nodiscard]] Table list_schedule(const Problem& problem, const Timing& timing,
                                  const ListRule& rule);

/// List scheduling with the chains of every SM given, in order. Requires every chain of the problem
/// once, on lanes that are resident.
[[nodiscard]] Table list_schedule(const Problem& problem, const Timing& timing,
                                  const ChainLanes& lanes, QOrder order);

/// List scheduling that ends without a table when `stop()` is true.
[[nodiscard]] std::optional<Table> list_schedule(const Problem& problem, const Timing& timing,
                                                 const ListRule& rule, const Stop& stop);
[[nodiscard]] std::optional<Table> list_schedule(const Problem& problem, const Timing& timing,
                                                 const ChainLanes& lanes, QOrder order,
                                                 const Stop& stop);

}  // namespace stagger::search
