#include "core/steps.hpp"

#include "core/checked.hpp"
#include "core/huge_pages.hpp"

#include <utility>
#include <vector>

namespace stagger {
namespace {

TileGrid in_steps(const TileGrid& grid, std::int32_t steps) {
  std::vector<TileKind> kinds;
  kinds.reserve(at(grid.kv_tiles()) * at(grid.q_tiles()) * at(steps));
  for (KvTile kv{0}; kv.value < grid.kv_tiles(); ++kv) {
    for (QTile q{0}; q.value < grid.q_tiles(); ++q)
      kinds.insert(kinds.end(), at(steps), grid.kind(kv, q));
  }
  return {grid.kv_tiles(), grid.q_tiles() * steps, std::move(kinds)};
}

HeadGrids in_steps(const HeadGrids& grids, std::int32_t steps) {
  std::vector<TileGrid> stepped;
  for (const TileGrid& grid : grids.distinct())
    stepped.push_back(in_steps(grid, steps));
  if (grids.all_alike()) return {std::move(stepped.front())};
  return {stepped, grids.places()};
}

}  // namespace

Problem in_steps(const Problem& problem, std::int32_t steps) {
  Problem stepped = problem;
  stepped.shape.q = divide_up(problem.shape.q, std::int64_t{steps});
  stepped.grids = in_steps(problem.grids, steps);
  return stepped;
}

Table in_steps(const Table& table, std::int32_t steps) {
  Table stepped{.name = table.name,
                .problem = in_steps(table.problem, steps),
                .dispatch = table.dispatch,
                .lane_begin = table.lane_begin,
                .dkv_ranks = table.dkv_ranks};
  for (std::int64_t& begin : stepped.lane_begin)
    begin *= steps;
  reserve_filled(stepped.slots, table.slots.size() * at(steps));
  for (const auto& [task, rank] : table.slots) {
    for (std::int32_t step = 0; step < steps; ++step)
      stepped.slots.push_back({{task.head, task.kv, QTile{task.q.value * steps + step}}, rank});
  }
  return stepped;
}

Timing of_steps(const Timing& timing) {
  Timing of_one = timing;
  const auto divide = [&](auto& whole) { whole = divide_up(whole, std::int64_t{timing.steps}); };
  divide(of_one.compute);
  if (of_one.compute_partial) divide(*of_one.compute_partial);
  divide(of_one.reduce);
  if (of_one.memory) {
    divide(of_one.memory->tile.q);
    divide(of_one.memory->tile.dq);
  }
  of_one.steps = 1;
  return of_one;
}

InSteps::InSteps(const Table& table, const Timing& timing) : table_(table), timing_(timing) {
  if (timing.steps == 1) return;
  steps_ = in_steps(table, timing.steps);
  of_steps_ = of_steps(timing);
}

}  // namespace stagger
