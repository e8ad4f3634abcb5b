#pragma once

#include "core/table.hpp"
#include "core/timing.hpp"

#include <functional>
#include <optional>
#include <vector>

namespace stagger::test {

/// What came of a table. Times are -1 for what never began.
struct NaivePlay {
  std::vector<Ticks> compute_start = {};  ///< by slot, and step of its task
  std::vector<Ticks> reduce_start = {};   ///< likewise
  std::optional<Ticks> makespan = {};     ///< nullopt if it hangs
};

/// A table played tick by tick from the rules as design and README state them: at every tick,
/// whatever may start starts. It hangs if nothing has moved for longer than any wait can last.
/// O(makespan * tasks^2): for small tables.
[[nodiscard]] NaivePlay naive_play(const Table& table, const Timing& timing);

/// The makespan of naive_play.
[[nodiscard]] std::optional<Ticks> naive_makespan(const Table& table, const Timing& timing);

/// Calls `visit` for every table of a problem without more lanes than SMs (static) or chains
/// (in-order), but for lanes that are alike. For problems of a handful of tasks.
void each_table(const Problem& problem, Dispatch dispatch,
                const std::function<void(const Table&)>& visit);

/// The shortest makespan over all tables of a problem with static dispatch, by trying them all.
/// For problems of a handful of tasks.
[[nodiscard]] Ticks naive_optimum(const Problem& problem, const Timing& timing);

/// The makespan of a static table in the slot model, in rounds, tried one after the other,
/// every chain starting as early as that. nullopt if some chain can never start.
[[nodiscard]] std::optional<std::int64_t> naive_rounds(const Table& table);

/// The fewest rounds of any table of a problem in the slot model, by trying every start and every Q
/// order of every chain. For problems of a handful of tasks.
[[nodiscard]] std::int64_t naive_round_optimum(const Problem& problem);

}  // namespace stagger::test
