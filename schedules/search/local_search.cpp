#include "schedules/search/local_search.hpp"

#include "schedules/search/dice.hpp"
#include "schedules/search/incremental.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace stagger::search {
namespace {

/// Changes the arrangement at random; false if the roll gave nothing to change.
bool rearrange(Arrangement& arrangement, Dice& dice) {
  ChainLanes& lanes = arrangement.lanes;
  std::vector<Chain>& lane = lanes[dice.roll(lanes.size())];
  std::vector<Chain>& other = lanes[dice.roll(lanes.size())];
  if (lane.empty()) return false;
  const std::size_t place = dice.roll(lane.size());
  switch (dice.roll(8)) {
    case 0:
      arrangement.q = static_cast<QOrder>(dice.roll(kQOrders));
      return true;
    case 1:
      if (&lane == &other) return false;
      other.insert(other.begin() + static_cast<std::ptrdiff_t>(dice.roll(other.size() + 1)),
                   lane[place]);
      lane.erase(lane.begin() + static_cast<std::ptrdiff_t>(place));
      return true;
    case 2:
      std::reverse(lane.begin(), lane.end());
      return lane.size() > 1;
    case 3:
    case 4:
      std::swap(lane[place], lane[dice.roll(lane.size())]);
      return true;
    default:
      if (other.empty()) return false;
      std::swap(lane[place], other[dice.roll(other.size())]);
      return true;
  }
}

/// A random move of polishing: a slot, and how far ahead in its chain the other one is, or 0 for
/// the rank before.
struct Move {
  std::size_t slot = 0;
  std::size_t reach = 0;
};

Move roll_move(const Table& table, Dice& dice) {
  return {dice.roll(table.slots.size()), dice.roll(2) == 0 ? 0 : 1 + dice.roll(3)};
}

/// Whether the move exists: another slot of the chain there, or a rank before.
bool is_move(const Table& table, const Move& move) {
  const Slot& slot = table.slots[move.slot];
  if (move.reach == 0) return slot.rank > 0;
  if (move.slot + move.reach >= table.slots.size()) return false;
  const Task& other = table.slots[move.slot + move.reach].task;
  return other.head == slot.task.head && other.kv == slot.task.kv;
}

}  // namespace

LocalSearchResult local_search(const Problem& problem, const Timing& timing,
                               Arrangement arrangement, const LocalSearchOptions& options) {
  Dice dice(options.seed);
  const auto judged = [&](const Arrangement& candidate) -> std::optional<LocalSearchResult> {
    auto table = list_schedule(problem, timing, candidate.lanes, candidate.q, options.stop);
    if (!table) return std::nullopt;
    const Ticks makespan = options.makespan(*table);
    return LocalSearchResult{std::move(*table), makespan};
  };
  std::optional<LocalSearchResult> first = judged(arrangement);
  if (!first) return {.table = {}, .makespan = -1};
  LocalSearchResult best = std::move(*first);
  for (std::int64_t move = 0; move < options.moves; ++move) {
    const bool done = best.makespan >= 0 && best.makespan <= options.at_least;
    if (done || options.stop()) break;
    Arrangement candidate = arrangement;
    if (!rearrange(candidate, dice)) continue;
    std::optional<LocalSearchResult> result = judged(candidate);
    if (!result) break;
    if (result->makespan < 0) continue;
    if (best.makespan >= 0 && result->makespan > best.makespan) continue;
    best = std::move(*result);
    arrangement = std::move(candidate);
  }
  return best;
}

LocalSearchResult polish(Table table, const Timing& timing, const LocalSearchOptions& options) {
  Dice dice(options.seed);
  LocalSearchResult best{.table = std::move(table)};
  best.makespan = options.makespan(best.table);
  if (best.table.slots.empty() || best.makespan < 0 || options.stop()) return best;
  IncrementalPlay play(best.table, timing);
  for (std::int64_t moves = 0; play.makespan() > options.at_least; ++moves) {
    if (moves + play.played() >= options.plays) break;
    if (options.stop()) break;
    const Move move = roll_move(best.table, dice);
    if (!is_move(best.table, move)) continue;
    if (move.reach == 0) {
      play.exchange_ranks(move.slot, play.makespan());
    } else {
      play.exchange_q(move.slot, move.slot + move.reach, play.makespan());
    }
  }
  best.makespan = play.makespan();
  return best;
}

}  // namespace stagger::search
