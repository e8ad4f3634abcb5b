// Tiles in L2 stand in a row; by kind and number it is known where, and when each came.

#include "schedules/search/memory_time.hpp"

#include "core/as_played.hpp"
#include "core/rank_places.hpp"

#include <algorithm>
#include <compare>
#include <functional>
#include <map>
#include <queue>
#include <random>
#include <utility>
#include <vector>

namespace stagger::search {
namespace {

__extension__ using Bytes128 = __int128;

enum class Kind : std::int32_t { dq, q, kv, gradient };

/// L2 and the device memory behind it, whose channels have clocks of ticks times rate.
class L2 {
 public:
  L2(const Memory& memory, const Problem& problem) : memory_(memory) {
    const auto q_tiles = at(problem.heads) * at(problem.q_tiles());
    const auto kv_tiles = at(problem.kv_tiles());
    const auto of_kv_heads = at(problem.heads_kv) * kv_tiles;
    for (const std::size_t tiles : {q_tiles, q_tiles, of_kv_heads, of_kv_heads})
      tiles_.emplace_back(tiles);
  }

  /// An addition of a tile's bytes busies a channel.
  void add(Ticks now, Kind kind) {
    const auto bytes =
        static_cast<std::int64_t>(Bytes128{bytes_of(kind)} * memory_.add_permille / 1000);
    if (bytes > 0) move(now, bytes);
  }

  /// When a tile is there that is touched at `now`.
  Ticks touch(Ticks now, Kind kind, std::int32_t number, bool reads, bool writes) {
    Tile& tile = tiles_[static_cast<std::size_t>(kind)][static_cast<std::size_t>(number)];
    tile.used = now;
    if (tile.place >= 0) {
      row_[at(tile.place)].dirty |= writes;
      return std::max(now, tile.came);
    }
    const std::int64_t bytes = bytes_of(kind);
    if (reads) tile.came = move(now, bytes) + memory_.latency;
    while (held_ + bytes > memory_.l2 && !row_.empty())
      forget(now, stalest());
    if (bytes > memory_.l2) {
      if (writes) move(now, bytes);
      return std::max(now, tile.came);
    }
    tile.place = static_cast<int>(row_.size());
    row_.push_back({kind, number, writes});
    held_ += bytes;
    return std::max(now, tile.came);
  }

  /// Writes a tile to device memory at `now`. Returns when it was begun, had it been alone.
  Ticks pass(Ticks now, Kind kind) {
    const Ticks alone = in_ticks(Bytes128{bytes_of(kind)} * kMemoryChannels);
    return move(now, bytes_of(kind)) - alone;
  }

  /// When everything was moved.
  [[nodiscard]] Ticks done() const { return in_ticks(std::ranges::max(moved_until_)); }

 private:
  struct Tile {
    int place = -1;  ///< in the row
    Ticks came = 0;
    Ticks used = 0;
  };
  struct Entry {
    Kind kind;
    std::int32_t number;
    bool dirty;
  };

  /// The place in the row of the tile that leaves: of four draws the one that was used first.
  std::size_t stalest() {
    std::size_t places[4];
    for (std::size_t& place : places)
      place = static_cast<std::size_t>(std::uint64_t{dice_()} * row_.size() >> 32U);
    return *std::ranges::min_element(
        places, {}, [this](std::size_t place) { return tile_of(row_[place]).used; });
  }

  /// The last of the row takes the place of the tile that leaves.
  void forget(Ticks now, std::size_t place) {
    const Entry gone = row_[place];
    tile_of(row_.back()).place = static_cast<int>(place);
    tile_of(gone).place = -1;
    row_[place] = row_.back();
    row_.pop_back();
    held_ -= bytes_of(gone.kind);
    if (gone.dirty) move(now, bytes_of(gone.kind));
  }

  Ticks move(Ticks now, std::int64_t bytes) {
    Bytes128& until = moved_until_[at(std::uint64_t{channel_dice_()} * kMemoryChannels >> 32U)];
    until = std::max(until, Bytes128{now} * memory_.rate) + Bytes128{bytes} * kMemoryChannels;
    return in_ticks(until);
  }

  [[nodiscard]] Ticks in_ticks(Bytes128 clock) const {
    return static_cast<Ticks>((clock + memory_.rate - 1) / memory_.rate);
  }

  Tile& tile_of(const Entry& entry) {
    return tiles_[static_cast<std::size_t>(entry.kind)][static_cast<std::size_t>(entry.number)];
  }

  [[nodiscard]] std::int64_t bytes_of(Kind kind) const {
    const TileBytes& tile = memory_.tile;
    const std::int64_t bytes[] = {tile.dq, tile.q, tile.kv, tile.gradient};
    return bytes[static_cast<std::size_t>(kind)];
  }

  const Memory& memory_;
  std::mt19937 dice_;
  std::vector<Entry> row_;
  std::vector<std::vector<Tile>> tiles_;  ///< by kind, then number
  std::int64_t held_ = 0;
  std::vector<Bytes128> moved_until_ = std::vector<Bytes128>(kMemoryChannels, 0);
  std::mt19937 channel_dice_{1};
};

/// What chance adds to the hand-over that brings a rank's turn: 2/3 of the spread for each halving
/// of 2^32 down to a draw, and of the last one, which goes beyond it, what is needed.
Ticks chance(const Memory& memory, std::int64_t place, std::int32_t rank) {
  constexpr std::uint64_t kHalf = std::uint64_t{1} << 31;
  std::uint64_t word = at(place) * (1U << 24U) + at(rank) + 11400714819323198485U;
  word += at(memory.draw) * (std::uint64_t{1} << 58U);
  word = (word ^ word >> 30U) * 13787848793156543929U;
  word = (word ^ word >> 27U) * 10723151780598845931U;
  std::uint64_t draw = (word ^ word >> 31U) >> 32U | 1U;
  std::int64_t parts = 0;  // of 2^16 a halving
  for (; draw < kHalf; draw *= 2)
    parts += 65'536;
  parts += 131'072 - static_cast<std::int64_t>(draw / 32'768);
  return static_cast<Ticks>(Bytes128{parts} * memory.spread / 98'304);
}

/// What an SM does at a time, in the order in which an SM does them.
enum class Act : std::int8_t { lane, chain, task, add, join };

struct Appointment {
  Ticks time = 0;
  std::int32_t sm = 0;
  Act act = Act::lane;
  friend auto operator<=>(const Appointment&, const Appointment&) = default;
};

class Agenda {
 public:
  Agenda(const Table& table, const Timing& timing)
      : table_(table),
        timing_(timing),
        problem_(table.problem),
        l2_(*timing.memory, table.problem),
        places_(table.problem),
        turn_(places_.size(), kUnknown),
        sms_(at(std::min(table.lanes(), resident_lanes(table.problem, timing.residency)))) {}

  std::optional<MemoryTime> run() {
    for (std::int32_t sm = 0; sm < std::ssize(sms_); ++sm)
      do_lane(sm, 0);
    while (!agenda_.empty()) {
      const Appointment next = agenda_.top();
      agenda_.pop();
      (this->*kActs[static_cast<std::size_t>(next.act)])(next.sm, next.time);
    }
    const bool joins = std::ranges::any_of(sms_, &SmState::joins);
    if (left_ > 0 || joins || next_lane_ < table_.lanes()) return std::nullopt;
    return MemoryTime{.makespan = std::max(end_, l2_.done()), .in_flight = most_in_flight_};
  }

 private:
  static constexpr Ticks kUnknown = -1;
  /// The turn of a rank that an SM waits for: below kUnknown.
  static constexpr Ticks awaited_by(std::int32_t index) { return kUnknown - 1 - index; }

  struct SmState {
    std::int64_t front = 0;  ///< slots begun by the SM
    std::int64_t back = 0;   ///< slots whose dQ is begun by the writer
    std::int64_t end = 0;    ///< of the lane
    Ticks free = 0;          ///< the SM
    Ticks writer_free = 0;   ///< the writer
    Ticks fetched = 0;       ///< Q of the next slot
    Ticks computed = 0;      ///< the newest slot
    Ticks handed = 0;        ///< the slot at `back`
    bool joins = false;      ///< the writer has a chain to join to dK and dV
    bool owes = false;       ///< dK and dV of the chain before, to device memory
  };

  [[nodiscard]] const Slot& slot(std::int64_t index) const { return table_.slots[at(index)]; }
  [[nodiscard]] bool same(std::int64_t index, std::int64_t other) const {
    const Task& one = slot(index).task;
    const Task& two = slot(other).task;
    return one.kv == two.kv && problem_.part_of(one.head) == problem_.part_of(two.head);
  }
  [[nodiscard]] bool ends(const SmState& sm, std::int64_t index) const {
    return index + 1 == sm.end || !same(index, index + 1);
  }
  /// Whether the SM turns to its next slot while this one's dQ waits for its turn.
  [[nodiscard]] bool goes_ahead(bool ends_chain) const {
    if (timing_.model != Model::overlap) return false;
    if (!ends_chain) return true;
    return (table_.dispatch == Dispatch::static_ || timing_.next_lane) && !stays();
  }
  /// From a lane's last reduction until its SM can launch another.
  [[nodiscard]] Ticks taking() const {
    const bool takes = timing_.model == Model::overlap && table_.dispatch == Dispatch::in_order;
    return takes ? timing_.next_lane.value_or(0) : 0;
  }
  [[nodiscard]] bool combines() const { return problem_.combine == Combine::ordered; }
  [[nodiscard]] bool stays() const { return combines() && !timing_.reduce_kv_async; }
  [[nodiscard]] std::int32_t row_of(const Task& task) const {
    return task.head.value * problem_.q_tiles() + task.q.value;
  }

  void do_lane(std::int32_t index, Ticks time) {
    SmState& sm = sms_[at(index)];
    if (next_lane_ == table_.lanes()) {
      if (sm.owes) l2_.pass(time, Kind::gradient);
      return;
    }
    if (sm.writer_free > 0 && sm.writer_free + taking() > time) {
      const Ticks written = sm.owes ? l2_.pass(time, Kind::gradient) : time;
      sm.owes = false;
      return agenda_.push({std::max(sm.writer_free + taking(), written), index, Act::lane});
    }
    const Lane lane{next_lane_++};
    const std::int64_t begin = table_.begin_of(lane);
    const bool owes = sm.owes;
    sm = {.front = begin, .back = begin, .end = table_.end_of(lane), .free = time, .owes = owes};
    left_ += sm.end - begin;
    proceed(index, true);
  }

  /// The SM's next slot, or, if it was the writer that kept it, the lane's end.
  void proceed(std::int32_t index, bool begins_chain) {
    SmState& sm = sms_[at(index)];
    if (sm.front == sm.end) {
      if (sm.back < sm.end || sm.joins) return;
      const Ticks time = std::max(sm.free, sm.writer_free);
      if (sm.writer_free > 0) end_ = std::max(end_, time);
      agenda_.push({time, index, Act::lane});
    } else if (begins_chain) {
      agenda_.push({sm.free, index, Act::chain});
    } else {
      agenda_.push({std::max(sm.free, sm.fetched), index, Act::task});
    }
  }

  void do_chain(std::int32_t index, Ticks time) {
    SmState& sm = sms_[at(index)];
    if (sm.owes) {
      sm.owes = false;
      const Ticks begins = l2_.pass(time, Kind::gradient);
      if (begins > time) return agenda_.push({begins, index, Act::chain});
    }
    sm.owes = !combines();
    const Task& task = slot(sm.front).task;
    const std::int32_t kv =
        problem_.kv_head_of(task.head).value * problem_.kv_tiles() + task.kv.value;
    const Ticks has_kv = l2_.touch(time, Kind::kv, kv, true, false);
    const Ticks has_q = l2_.touch(time, Kind::q, row_of(task), true, false);
    agenda_.push({std::max({time + timing_.launch, has_kv, has_q}), index, Act::task});
  }

  void do_task(std::int32_t index, Ticks time) {
    SmState& sm = sms_[at(index)];
    const std::int64_t current = sm.front++;
    const Ticks computes = timing_.compute_of(problem_, slot(current).task);
    sm.computed = time + computes + (time < timing_.memory->dip ? lost(computes) : 0);
    if (!ends(sm, current)) {
      sm.fetched = l2_.touch(time, Kind::q, row_of(slot(current + 1).task), true, false);
    }
    if (sm.back == current && !sm.joins) give(index);
  }

  /// The slot at `back` goes to the writer, which is done with the one before or knows when.
  void give(std::int32_t index) {
    SmState& sm = sms_[at(index)];
    sm.handed = std::max(sm.computed, sm.writer_free);
    const auto& [task, rank] = slot(sm.back);
    const std::size_t place = places_.of(task, rank);
    if (rank == 0) {
      agenda_.push({sm.handed, index, Act::add});
    } else if (turn_[place] >= 0) {
      agenda_.push({std::max(sm.handed, turn_[place]), index, Act::add});
    } else {
      turn_[place] = awaited_by(index);
    }
    const bool last = ends(sm, sm.back);
    if (!goes_ahead(last)) return;
    sm.free = sm.handed + (last ? timing_.epilogue : 0);
    // The lane cannot be at its end: this slot is the writer's yet.
    if (sm.front < sm.end) proceed(index, last);
  }

  void do_add(std::int32_t index, Ticks time) {
    SmState& sm = sms_[at(index)];
    const std::int64_t current = sm.back++;
    --left_;
    const auto& [task, rank] = slot(current);
    const bool last = ends(sm, current);
    added_.push_back(time);
    count_in_flight(task, rank);
    if (rank > 0) l2_.add(time, Kind::dq);
    const Ticks start = l2_.touch(time, Kind::dq, row_of(task), rank > 0, true);
    const bool first = current == sm_begin(current) || !same(current, current - 1);
    if (timing_.release == Release::delayed) {
      if (!first) unlock(slot(current - 1), start + timing_.reduce / 2);
      if (last) unlock(slot(current), start + timing_.reduce);
    } else {
      unlock(slot(current), start + timing_.reduce);
    }
    sm.writer_free = start + timing_.reduce;
    const bool waited = !goes_ahead(last);
    if (waited) sm.free = sm.writer_free + (last && !stays() ? timing_.epilogue : 0);
    if (last && combines()) ask_to_join(index, task);
    if (waited && !(last && stays())) {
      proceed(index, last);
    } else if (!sm.joins) {
      relieve(index);
    }
  }

  void count_in_flight(const Task& task, std::int32_t rank) {
    if (rank == 0) in_flight_ += timing_.memory->tile.dq;
    most_in_flight_ = std::max(most_in_flight_, in_flight_);
    if (rank + 1 == problem_.contributions(task)) in_flight_ -= timing_.memory->tile.dq;
  }

  void ask_to_join(std::int32_t index, const Task& task) {
    SmState& sm = sms_[at(index)];
    sm.joins = true;
    const auto key = std::pair{problem_.dkv_place(task), table_.dkv_rank(task)};
    const auto turn = joins_.find(key);
    if (key.second == 0) {
      agenda_.push({sm.writer_free, index, Act::join});
    } else if (turn != joins_.end()) {
      agenda_.push({std::max(sm.writer_free, turn->second), index, Act::join});
    } else {
      joiners_[key] = index;
    }
  }

  void do_join(std::int32_t index, Ticks time) {
    SmState& sm = sms_[at(index)];
    const Task& task = slot(sm.back - 1).task;
    const std::int64_t kv = problem_.dkv_place(task);
    const std::int32_t rank = table_.dkv_rank(task);
    if (rank > 0) l2_.add(time, Kind::gradient);
    const Ticks there =
        l2_.touch(time, Kind::gradient, static_cast<std::int32_t>(kv), rank > 0, true);
    const Ticks done = there + timing_.reduce_kv;
    const std::int64_t place = std::int64_t{problem_.heads} * problem_.q_tiles() + kv;
    const Ticks turn = done + hand_over() + chance(*timing_.memory, place, rank + 1);
    joins_[{kv, rank + 1}] = turn;
    if (const auto next = joiners_.find({kv, rank + 1}); next != joiners_.end()) {
      const Ticks ready = sms_[at(next->second)].writer_free;
      agenda_.push({std::max(ready, turn), next->second, Act::join});
    }
    sm.writer_free = done;
    sm.joins = false;
    if (stays()) {
      sm.free = done + timing_.epilogue;
      proceed(index, true);
    } else {
      relieve(index);
    }
  }

  /// The writer turns to what was computed meanwhile; nothing was: perhaps the lane is at its end.
  void relieve(std::int32_t index) {
    SmState& sm = sms_[at(index)];
    if (sm.back < sm.front) {
      give(index);
    } else if (sm.front == sm.end) {
      proceed(index, true);
    }
  }

  [[nodiscard]] std::int64_t all_sms() const { return resident_lanes(problem_, timing_.residency); }
  /// The SMs that added within a cycle before the last addition to dQ.
  [[nodiscard]] std::int64_t busy() const {
    if (added_.empty()) return 0;
    const auto recent = std::ranges::upper_bound(added_, added_.back() - timing_.cycle());
    return std::min<std::int64_t>(added_.end() - recent, all_sms());
  }
  /// From a release to the turn that it gives, as things are since the last addition to dQ.
  [[nodiscard]] Ticks hand_over() const {
    return timing_.latency + timing_.memory->congestion * busy() / all_sms();
  }
  /// What a dip of the clock costs `computes`: a share of all that it can, from half of the SMs on.
  [[nodiscard]] Ticks lost(Ticks computes) const {
    const auto& [dip, loss] = std::pair{timing_.memory->dip, timing_.memory->dip_loss};
    const std::int64_t idle = all_sms() - busy();
    if (2 * idle >= all_sms() || loss == 0) return 0;
    const Bytes128 all = Bytes128{computes} * loss / (dip - loss);
    return static_cast<Ticks>(all * (all_sms() - 2 * idle) / all_sms());
  }

  [[nodiscard]] std::int64_t sm_begin(std::int64_t index) const {
    const auto after = std::ranges::upper_bound(table_.lane_begin, index);
    return after[-1];
  }

  void unlock(const Slot& done, Ticks time) {
    if (done.rank + 1 == problem_.contributions(done.task)) return;
    const std::size_t place = places_.of(done.task, done.rank + 1);
    const Ticks by_chance = chance(*timing_.memory, row_of(done.task), done.rank + 1);
    const Ticks before = std::exchange(turn_[place], time + hand_over() + by_chance);
    if (before >= kUnknown) return;
    const auto waits = static_cast<std::int32_t>(awaited_by(0) - before);
    agenda_.push({std::max(sms_[at(waits)].handed, turn_[place]), waits, Act::add});
  }

  /// What each Act does, in their order.
  static constexpr void (Agenda::*kActs[])(std::int32_t, Ticks) = {
      &Agenda::do_lane, &Agenda::do_chain, &Agenda::do_task, &Agenda::do_add, &Agenda::do_join};

  const Table& table_;
  const Timing& timing_;
  const Problem& problem_;
  L2 l2_;
  RankPlaces places_;
  std::vector<Ticks> turn_;                                       ///< by rank: when it may start
  std::map<std::pair<std::int64_t, std::int32_t>, Ticks> joins_;  ///< by place and rank of a part
  std::map<std::pair<std::int64_t, std::int32_t>, std::int32_t> joiners_;
  std::priority_queue<Appointment, std::vector<Appointment>, std::greater<>> agenda_;
  std::vector<SmState> sms_;
  std::vector<Ticks> added_;  ///< when each addition to dQ had its turn, in their order
  std::int32_t next_lane_ = 0;
  std::int64_t left_ = 0;  ///< slots of lanes begun that are not reduced
  Ticks end_ = 0;
  std::int64_t in_flight_ = 0;  ///< bytes of dQ tiles begun and not finished
  std::int64_t most_in_flight_ = 0;
};

}  // namespace

std::optional<MemoryTime> memory_time(const Table& table, const Timing& timing) {
  const AsPlayed played(table, timing);
  return Agenda(played.table(), played.timing()).run();
}

}  // namespace stagger::search
