#include "core/as_played.hpp"

#include "core/checked.hpp"
#include "core/huge_pages.hpp"

#include <utility>
#include <vector>

namespace stagger {
namespace {

/// Whether the last KV tile computes as a partial one though it may not be.
bool is_cut(const Problem& problem, const Timing& timing) {
  return timing.cut_partial && !timing.uniform() && problem.lengths.kv % problem.shape.kv != 0;
}

TileGrid as_played(const TileGrid& grid, std::int32_t steps, bool cut) {
  std::vector<TileKind> kinds;
  kinds.reserve(at(grid.kv_tiles()) * at(grid.q_tiles()) * at(steps));
  for (KvTile kv{0}; kv.value < grid.kv_tiles(); ++kv) {
    const bool is_partial = cut && kv.value + 1 == grid.kv_tiles();
    for (QTile q{0}; q.value < grid.q_tiles(); ++q) {
      const bool masked = is_partial && grid.live(kv, q);
      kinds.insert(kinds.end(), at(steps), masked ? TileKind::partial : grid.kind(kv, q));
    }
  }
  return {grid.kv_tiles(), grid.q_tiles() * steps, std::move(kinds)};
}

HeadGrids as_played(const HeadGrids& grids, std::int32_t steps, bool cut) {
  std::vector<TileGrid> played;
  for (const TileGrid& grid : grids.distinct())
    played.push_back(as_played(grid, steps, cut));
  if (grids.all_alike()) return {std::move(played.front())};
  return {played, grids.places()};
}

}  // namespace

bool plays_itself(const Problem& problem, const Timing& timing) {
  return timing.steps == 1 && !is_cut(problem, timing);
}

Problem as_played(const Problem& problem, const Timing& timing) {
  Problem played = problem;
  played.shape.q = divide_up(problem.shape.q, std::int64_t{timing.steps});
  played.grids = as_played(problem.grids, timing.steps, is_cut(problem, timing));
  return played;
}

Table as_played(const Table& table, const Timing& timing) {
  const std::int32_t steps = timing.steps;
  Table played{.name = table.name,
               .problem = as_played(table.problem, timing),
               .dispatch = table.dispatch,
               .lane_begin = table.lane_begin,
               .dkv_ranks = table.dkv_ranks};
  for (std::int64_t& begin : played.lane_begin)
    begin *= steps;
  reserve_filled(played.slots, table.slots.size() * at(steps));
  for (const auto& [task, rank] : table.slots) {
    for (std::int32_t step = 0; step < steps; ++step)
      played.slots.push_back({{task.head, task.kv, QTile{task.q.value * steps + step}}, rank});
  }
  return played;
}

Timing as_played(const Timing& timing) {
  Timing played = timing;
  const auto divide = [&](auto& whole) { whole = divide_up(whole, std::int64_t{timing.steps}); };
  divide(played.compute);
  if (played.compute_partial) divide(*played.compute_partial);
  divide(played.reduce);
  if (played.memory) {
    divide(played.memory->tile.q);
    divide(played.memory->tile.dq);
  }
  played.steps = 1;
  played.cut_partial = false;
  return played;
}

AsPlayed::AsPlayed(const Table& table, const Timing& timing) : table_(table), timing_(timing) {
  if (plays_itself(table.problem, timing)) return;
  played_ = as_played(table, timing);
  of_played_ = as_played(timing);
}

}  // namespace stagger
