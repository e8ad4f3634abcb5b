#pragma once

#include "core/table.hpp"
#include "core/timing.hpp"
#include "schedules/search/chain.hpp"
#include "schedules/search/list_scheduling.hpp"

#include <cstdint>
#include <functional>
#include <vector>

namespace stagger::search {

/// A place in the search space: the chains of every SM in order, and how each SM picks its Q tiles;
/// list scheduling makes the table.
struct Arrangement {
  ChainLanes lanes;
  QOrder q = QOrder::cyclic;
};

struct LocalSearchOptions {
  std::uint64_t seed = 1;
  std::int64_t moves = 1'000;    ///< of local_search
  std::int64_t plays = 100'000;  ///< of polish: moves and tasks that they play
  Ticks at_least = 0;            ///< a proven lower bound: stop there
  Stop stop;                     ///< asked often
  /// The makespan of a table in the model asked for, or its cost; below 0: infeasible.
  std::function<Ticks(const Table&)> makespan;
};

struct LocalSearchResult {
  Table table;
  Ticks makespan = 0;
};

/// Improves an arrangement: exchanges two chains of two SMs, moves one, or reorders an SM's, and
/// keeps what is not worse. A move costs a list scheduling. The same options give the same result
/// unless `stop` cuts it short; if that is before anything was tried, there is no table and its
/// makespan is below 0.
[[nodiscard]] LocalSearchResult local_search(const Problem& problem, const Timing& timing,
                                             Arrangement arrangement,
                                             const LocalSearchOptions& options);

/// Improves a static table in the chain or overlap model: exchanges two Q tiles of a chain or two
/// ranks of a dQ tile, and keeps what is not worse. A move costs what of the table it moves
/// (incremental.hpp).
[[nodiscard]] LocalSearchResult polish(Table table, const Timing& timing,
                                       const LocalSearchOptions& options);

}  // namespace stagger::search
