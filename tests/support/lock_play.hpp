#pragma once

#include "core/table.hpp"
#include "core/timing.hpp"
#include "dag/liveness.hpp"

#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

namespace stagger::test {

/// A table's locks played as far as they go: whatever may move does, one step at a time. What is
/// left then is looked at by walking the lanes. For small tables.
class LockPlay {
 public:
  /// A semaphore: of a dQ tile (head, q), or of a KV tile's dK and dV (KV head, kv).
  using Lock = std::tuple<bool, std::int32_t, std::int32_t>;

  /// What a stuck lane waits for: lock, the value it needs and the one it sees.
  struct Awaited {
    Lock lock;
    std::int32_t rank = 0;
    std::int32_t value = 0;
    std::int32_t ranks = 0;
  };

  LockPlay(const Table& table, Release release, std::int32_t sms);

  [[nodiscard]] bool complete() const { return ended() == table_.lanes(); }
  [[nodiscard]] std::int64_t stuck_tasks() const;
  /// The (head, q) of which something was not reduced or not released.
  [[nodiscard]] std::vector<dag::Liveness::Hanging> hanging() const;
  [[nodiscard]] std::vector<dag::Liveness::HangingDkv> hanging_dkv() const;

  /// Whether a lane has begun and not ended.
  [[nodiscard]] bool is_stuck(Lane lane) const {
    return lane.value < launched_ && lanes_[at(lane)].next < table_.end_of(lane);
  }
  [[nodiscard]] std::int32_t launched() const { return launched_; }
  [[nodiscard]] Awaited awaited(Lane lane) const;
  /// The lane and slot that have a rank of a lock and have not released it.
  [[nodiscard]] const std::pair<Lane, std::int64_t>* holder(const Lock& lock,
                                                            std::int32_t rank) const;
  /// The lanes that a lane waits for, each at most once.
  [[nodiscard]] std::set<Lane> waits_for(Lane lane) const;
  /// Waits of the shortest cycle of waits; 0 if there is none.
  [[nodiscard]] std::size_t shortest_cycle() const;

 private:
  struct State {
    std::int64_t next = 0;
    bool reduced = false;  ///< and only the chain's reduction into dK and dV is left of it
  };

  [[nodiscard]] static Lock dq_lock(const Task& task) {
    return {false, task.head.value, task.q.value};
  }
  [[nodiscard]] Lock dkv_lock(const Task& task) const {
    return {true, table_.problem.kv_head_of(task.head).value, task.kv.value};
  }
  [[nodiscard]] std::int32_t value_of(const Lock& lock) const;
  [[nodiscard]] std::int32_t ended() const;
  bool step(Lane lane);
  [[nodiscard]] std::int64_t first_unreduced(Lane lane) const;
  [[nodiscard]] std::int64_t first_unreleased(Lane lane) const;
  void find_holders();

  const Table& table_;
  bool delayed_;
  bool ordered_;
  std::vector<State> lanes_;
  std::int32_t launched_ = 0;
  std::map<Lock, std::int32_t> values_;
  std::map<std::pair<Lock, std::int32_t>, std::pair<Lane, std::int64_t>> holders_;
};

}  // namespace stagger::test
