#pragma once

#include "core/table.hpp"
#include "core/timing.hpp"
#include "schedules/search/chain.hpp"
#include "schedules/search/rating.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace stagger::search {

/// When the phases of a static table's slots start.
struct Starts {
  std::vector<Ticks> compute;  ///< by slot; a chain's launch comes before
  std::vector<Ticks> reduce;   ///< by slot
  std::vector<Ticks> combine;  ///< by slot that ends a chain: its reduction into dK and dV; empty
                               ///< unless parts are combined in order
  Ticks makespan = 0;
};

/// Plays a static table without memory, nullopt if it deadlocks: what sim::simulate says where
/// plays_itself(), computed lane by lane as far as the locks allow instead of event by event. Else
/// it takes tasks whole and tiles as they are. Requires live tasks with ranks
/// 0 … k-1 for every (head, q). O(tasks + lanes log SMs).
[[nodiscard]] std::optional<Starts> starts_of(const Table& table, const Timing& timing);

/// The rating of a static table, nullopt if it deadlocks. Requires what starts_of() does. O(tasks),
/// O(tasks log SMs) with a memory, for each of rated_draws() and one more.
[[nodiscard]] std::optional<Rating> rating_of(const Table& table, const Timing& timing);

/// The rating of a static table where its timing's own draw of chance is all that costs, as
/// searches compare the tables that they try. Else as rating_of(). O(tasks), O(tasks log SMs) with
/// a memory.
[[nodiscard]] std::optional<Rating> rating_by_own_draw(const Table& table, const Timing& timing);

/// The makespan of a static table, with the memory if `timing` has one (memory_time.hpp), nullopt
/// if it deadlocks. Requires what starts_of() does. O(tasks), O(tasks log SMs) with a memory.
[[nodiscard]] std::optional<Ticks> makespan_of(const Table& table, const Timing& timing);

/// The makespan of a static table in the slot model, in rounds: every task takes one round, the
/// rounds of a chain follow one another, and a rank's round is after that of the rank before; where
/// parts are combined in order, so is the round in which a part's chain ends.
/// nullopt if the table's orders allow no such rounds, if 2^30 steps do not find them, or if
/// `stop()` is true. The starts of chains are the least solution of difference constraints (Bellman
/// and Ford). O(tasks) if no chains wait for each other, O(tasks * chains) at worst.
[[nodiscard]] std::optional<std::int64_t> rounds_of(
    const Table& table, const Stop& stop = [] { return false; });

}  // namespace stagger::search
