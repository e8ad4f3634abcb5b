// Tiles in L2 are a list, most recently used first; each knows its place in it.

#include "schedules/search/memory_time.hpp"

#include <algorithm>
#include <list>
#include <map>
#include <tuple>
#include <vector>

namespace stagger::search {
namespace {

constexpr Ticks kRoundsAWindow = 8;

enum class Kind : std::int32_t { dq, q, kv, gradient };

struct Access {
  std::int64_t round = 0;
  Kind kind = Kind::dq;
  std::int32_t tile = 0;  ///< (head, q), (KV head, kv) or (part, kv)
  bool reads = false;
  bool writes = false;
};

class L2 {
 public:
  L2(const Memory& memory, const Problem& problem) : memory_(memory) {
    const auto q_tiles = at(problem.heads) * at(problem.grid.q_tiles());
    const auto kv_tiles = at(problem.grid.kv_tiles());
    for (const std::size_t tiles :
         {q_tiles, q_tiles, at(problem.heads_kv) * kv_tiles, at(problem.parts()) * kv_tiles})
      places_.emplace_back(tiles, used_.end());
  }

  /// Bytes that an access moves to and from device memory.
  std::int64_t access(const Access& access) {
    auto& place =
        places_[static_cast<std::size_t>(access.kind)][static_cast<std::size_t>(access.tile)];
    std::int64_t moved = 0;
    if (place == used_.end()) {
      used_.push_front({access.kind, access.tile, false});
      held_ += bytes_of(access.kind);
      moved = access.reads ? bytes_of(access.kind) : 0;
    } else {
      used_.splice(used_.begin(), used_, place);
    }
    place = used_.begin();
    place->dirty = place->dirty || access.writes;
    for (; held_ > memory_.l2; used_.pop_back())
      moved += forget(used_.back());
    return moved;
  }

 private:
  struct Entry {
    Kind kind;
    std::int32_t tile;
    bool dirty;
  };

  std::int64_t forget(const Entry& entry) {
    places_[static_cast<std::size_t>(entry.kind)][static_cast<std::size_t>(entry.tile)] =
        used_.end();
    held_ -= bytes_of(entry.kind);
    return entry.dirty ? bytes_of(entry.kind) : 0;
  }

  [[nodiscard]] std::int64_t bytes_of(Kind kind) const {
    const TileBytes& tile = memory_.tile;
    const std::int64_t bytes[] = {tile.dq, tile.q, tile.kv, tile.gradient};
    return bytes[static_cast<std::size_t>(kind)];
  }

  const Memory& memory_;
  std::list<Entry> used_;
  std::vector<std::vector<std::list<Entry>::iterator>> places_;  ///< by kind, then tile
  std::int64_t held_ = 0;
};

std::vector<Access> accesses_of(const Table& table, const Timing& timing, const Starts& starts) {
  const Ticks round = std::max<Ticks>(timing.compute + timing.reduce, 1);
  const Problem& problem = table.problem;
  const TileGrid& grid = problem.grid;
  std::vector<Access> accesses;
  accesses.reserve(2 * table.slots.size());
  for (std::int32_t lane = 0; lane < table.lanes(); ++lane) {
    const auto begin = static_cast<std::size_t>(table.lane_begin[static_cast<std::size_t>(lane)]);
    const auto end = static_cast<std::size_t>(table.lane_begin[static_cast<std::size_t>(lane) + 1]);
    for (std::size_t slot = begin; slot < end; ++slot) {
      const Task& task = table.slots[slot].task;
      const std::int32_t rank = table.slots[slot].rank;
      const auto other_chain = [&](const Slot& other) {
        return problem.part_of(other.task.head) != problem.part_of(task.head) ||
               other.task.kv != task.kv;
      };
      const std::int32_t q = task.head.value * grid.q_tiles() + task.q.value;
      const std::int32_t kv = problem.kv_head_of(task.head).value * grid.kv_tiles() + task.kv.value;
      const std::int32_t gradient =
          problem.part_of(task.head).value * grid.kv_tiles() + task.kv.value;
      if (slot == begin || other_chain(table.slots[slot - 1])) {
        accesses.push_back({(starts.compute[slot] - timing.launch) / round, Kind::kv, kv, true});
      }
      accesses.push_back({starts.compute[slot] / round, Kind::q, q, true});
      const std::int64_t reduces = starts.reduce[slot] / round;
      accesses.push_back({reduces, Kind::dq, q, rank > 0, true});
      if (slot + 1 == end || other_chain(table.slots[slot + 1])) {
        if (starts.combine.empty()) {
          accesses.push_back({reduces, Kind::gradient, gradient, false, true});
        } else {
          accesses.push_back(
              {starts.combine[slot] / round, Kind::gradient, kv, table.dkv_rank(task) > 0, true});
        }
      }
    }
  }
  std::ranges::stable_sort(accesses, {}, &Access::round);
  return accesses;
}

Ticks together(Ticks phases, Ticks traffic) {
  __extension__ using Wide = __int128;
  const Wide longer = std::max(phases, traffic);
  const Wide shorter = std::min(phases, traffic);
  if (longer == 0) return 0;
  return static_cast<Ticks>(longer + shorter * shorter / longer * shorter / longer / 5);
}

}  // namespace

Ticks memory_time(const Table& table, const Timing& timing, const Starts& starts) {
  const Memory& memory = *timing.memory;
  L2 l2(memory, table.problem);
  std::map<std::int64_t, std::int64_t> moved;  // by window
  for (const Access& access : accesses_of(table, timing, starts))
    moved[access.round / kRoundsAWindow] += l2.access(access);
  const Ticks window = kRoundsAWindow * std::max<Ticks>(timing.compute + timing.reduce, 1);
  Ticks longer = 0;
  for (const auto& [index, bytes] : moved) {
    const Ticks phases = std::min(window, starts.makespan - index * window);
    longer += together(phases, (bytes + memory.rate - 1) / memory.rate) - phases;
  }
  return starts.makespan + longer;
}

}  // namespace stagger::search
