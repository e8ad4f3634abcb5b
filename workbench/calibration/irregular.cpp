#include "workbench/calibration/irregular.hpp"

#include "schedules/search/chain.hpp"
#include "schedules/search/dice.hpp"

#include <algorithm>
#include <functional>
#include <queue>
#include <tuple>
#include <utility>
#include <vector>

namespace stagger::workbench {
namespace {

using search::Chain;
using search::Dice;

std::vector<QTile> q_order(const TileGrid& grid, KvTile kv, Dice& dice) {
  std::vector<QTile> tiles = grid.live_q(kv);
  switch (dice.roll(3)) {
    case 0:
      break;
    case 1:
      std::rotate(tiles.begin(),
                  tiles.begin() + static_cast<std::ptrdiff_t>(dice.roll(tiles.size())),
                  tiles.end());
      break;
    default:
      dice.shuffle(tiles);
  }
  return tiles;
}

search::ChainLanes deal(const Problem& problem, Dice& dice) {
  std::vector<Chain> chains = search::chains_of(problem);
  dice.shuffle(chains);
  search::ChainLanes lanes(at(problem.sms));
  using Load = std::pair<std::int64_t, std::size_t>;
  std::priority_queue<Load, std::vector<Load>, std::greater<>> least;
  for (std::size_t sm = 0; sm < lanes.size(); ++sm)
    least.emplace(0, sm);
  for (const Chain& chain : chains) {
    const auto [load, sm] = least.top();
    least.pop();
    lanes[sm].push_back(chain);
    least.emplace(load + chain.length, sm);
  }
  return lanes;
}

/// Ranks by the tasks' starts, each lane going on at a pace that changes from task to task.
void rank_by_starts(Table& table, Dice& dice) {
  std::vector<std::pair<std::int64_t, std::int64_t>> starts;  // and slots
  for (Lane lane{0}; lane.value < table.lanes(); ++lane) {
    std::int64_t time = 0;
    for (std::int64_t slot = table.begin_of(lane); slot < table.end_of(lane); ++slot) {
      time += 100 + static_cast<std::int64_t>(dice.roll(100));
      starts.emplace_back(time, slot);
    }
  }
  std::ranges::sort(starts);
  const std::int64_t q_tiles = table.problem.q_tiles();
  IndexVector<std::int64_t, std::int32_t> seen(table.problem.heads * q_tiles);
  for (const auto& [time, slot] : starts) {
    const Task& task = table.slots[slot].task;
    table.slots[slot].rank = seen[task.head.value * q_tiles + task.q.value]++;
  }
}

}  // namespace

Table irregular_table(const Problem& problem, std::uint64_t seed) {
  Dice dice(seed);
  Table table{.name = kIrregularName + std::to_string(seed), .problem = problem};
  for (const std::vector<Chain>& chains : deal(problem, dice)) {
    for (const Chain& chain : chains) {
      for (const QTile q : q_order(problem.grid_of(chain.head), chain.kv, dice))
        table.slots.push_back({{chain.head, chain.kv, q}, 0});
    }
    table.end_lane();
  }
  rank_by_starts(table, dice);
  return table;
}

}  // namespace stagger::workbench
