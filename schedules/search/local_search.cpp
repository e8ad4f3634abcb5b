#include "schedules/search/local_search.hpp"

#include "core/rank_places.hpp"
#include "schedules/search/dice.hpp"

#include <algorithm>
#include <optional>

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

/// Exchanges of two slots' Q tiles within a chain, or of two neighbouring ranks.
class TableMoves {
 public:
  explicit TableMoves(Table& table) : table_(table), places_(table.problem) {
    slot_of_.resize(places_.size());
    for (std::size_t slot = 0; slot < table.slots.size(); ++slot)
      slot_of_[places_.of(table.slots[slot].task, table.slots[slot].rank)] = slot;
  }

  /// Makes a random move; false if the roll gave none.
  bool move(Dice& dice) {
    first_ = dice.roll(table_.slots.size());
    const Slot& slot = table_.slots[first_];
    if (dice.roll(2) == 0) {
      if (slot.rank == 0) return false;
      second_ = slot_of_[places_.of(slot.task, slot.rank - 1)];
      by_rank_ = true;
    } else {
      const std::size_t reach = 1 + dice.roll(3);
      if (first_ + reach >= table_.slots.size()) return false;
      second_ = first_ + reach;
      const Task& other = table_.slots[second_].task;
      if (other.head != slot.task.head || other.kv != slot.task.kv) return false;
      by_rank_ = false;
    }
    apply();
    return true;
  }

  void undo() { apply(); }

 private:
  void apply() {
    Slot& one = table_.slots[first_];
    Slot& other = table_.slots[second_];
    if (by_rank_) {
      std::swap(one.rank, other.rank);
    } else {
      std::swap(one, other);  // the same chain, and so the same lane: places stay in one chain
    }
    slot_of_[places_.of(one.task, one.rank)] = first_;
    slot_of_[places_.of(other.task, other.rank)] = second_;
  }

  Table& table_;
  RankPlaces places_;
  std::vector<std::size_t> slot_of_;  ///< by rank
  std::size_t first_ = 0;
  std::size_t second_ = 0;
  bool by_rank_ = false;
};

}  // namespace

LocalSearchResult local_search(const Problem& problem, const Timing& timing,
                               Arrangement arrangement, const LocalSearchOptions& options) {
  Dice dice(options.seed);
  const auto judged = [&](const Arrangement& of) {
    LocalSearchResult result{.table = list_schedule(problem, timing, of.lanes, of.q)};
    result.makespan = options.makespan(result.table);
    return result;
  };
  LocalSearchResult best = judged(arrangement);
  for (std::int64_t move = 0; move < options.moves; ++move) {
    const bool done = best.makespan >= 0 && best.makespan <= options.at_least;
    if (done || options.stop()) break;
    Arrangement candidate = arrangement;
    if (!rearrange(candidate, dice)) continue;
    LocalSearchResult result = judged(candidate);
    if (result.makespan < 0) continue;
    if (best.makespan >= 0 && result.makespan > best.makespan) continue;
    best = std::move(result);
    arrangement = std::move(candidate);
  }
  return best;
}

LocalSearchResult polish(Table table, const LocalSearchOptions& options) {
  Dice dice(options.seed);
  LocalSearchResult best{.table = std::move(table)};
  best.makespan = options.makespan(best.table);
  if (best.table.slots.empty() || best.makespan < 0) return best;
  TableMoves moves(best.table);
  for (std::int64_t move = 0; move < options.moves && best.makespan > options.at_least; ++move) {
    if (options.stop()) break;
    if (!moves.move(dice)) continue;
    const Ticks makespan = options.makespan(best.table);
    if (makespan >= 0 && makespan <= best.makespan) {
      best.makespan = makespan;
    } else {
      moves.undo();
    }
  }
  return best;
}

}  // namespace stagger::search
