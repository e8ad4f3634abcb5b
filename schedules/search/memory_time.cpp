// Tiles in L2 stand in a row; by kind and number it is known where.

#include "schedules/search/memory_time.hpp"

#include <algorithm>
#include <map>
#include <random>
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
      places_.emplace_back(tiles, -1);
  }

  /// Bytes that an access moves to and from device memory.
  std::int64_t access(const Access& access) {
    const std::int64_t bytes = bytes_of(access.kind);
    if (const int place = place_of(access.kind, access.tile); place >= 0) {
      row_[at(place)].dirty |= access.writes;
      return 0;
    }
    std::int64_t moved = access.reads ? bytes : 0;
    while (held_ + bytes > memory_.l2 && !row_.empty())
      moved += forget(static_cast<std::size_t>(std::uint64_t{dice_()} * row_.size() >> 32U));
    if (bytes > memory_.l2) return moved + (access.writes ? bytes : 0);
    place_of(access.kind, access.tile) = static_cast<int>(row_.size());
    row_.push_back({access.kind, access.tile, access.writes});
    held_ += bytes;
    return moved;
  }

 private:
  struct Entry {
    Kind kind;
    std::int32_t tile;
    bool dirty;
  };

  /// Bytes that are written as the tile at a place of the row leaves; the last takes its place.
  std::int64_t forget(std::size_t place) {
    const Entry gone = row_[place];
    place_of(row_.back().kind, row_.back().tile) = static_cast<int>(place);
    place_of(gone.kind, gone.tile) = -1;
    row_[place] = row_.back();
    row_.pop_back();
    held_ -= bytes_of(gone.kind);
    return gone.dirty ? bytes_of(gone.kind) : 0;
  }

  int& place_of(Kind kind, std::int32_t tile) {
    return places_[static_cast<std::size_t>(kind)][static_cast<std::size_t>(tile)];
  }

  [[nodiscard]] std::int64_t bytes_of(Kind kind) const {
    const TileBytes& tile = memory_.tile;
    const std::int64_t bytes[] = {tile.dq, tile.q, tile.kv, tile.gradient};
    return bytes[static_cast<std::size_t>(kind)];
  }

  const Memory& memory_;
  std::mt19937 dice_;
  std::vector<Entry> row_;
  std::vector<std::vector<int>> places_;  ///< by kind, then tile: in the row, or -1
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
