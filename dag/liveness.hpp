#pragma once

#include "core/table.hpp"
#include "core/timing.hpp"
#include "core/wait.hpp"

#include <cstdint>
#include <vector>

namespace stagger::dag {

/// Whether a table runs to its end, whatever the times: a task can reduce when the ones before it
/// on its lane and in its accumulation order have, and so can a chain whose part is added to dK and
/// dV in its turn; a lane can start when an SM is free.
struct Liveness {
  bool live = true;
  /// CTAs that must be resident at once for the table to run to its end, taken in launch order; 0
  /// if no number is enough. 1 means that any residency will do.
  std::int32_t residency_needed = 0;
  std::int32_t residency_available = 0;
  /// The (head, q) whose accumulation never ends, ascending; empty if live.
  struct Hanging {
    Head head;
    QTile q;
    friend auto operator<=>(const Hanging&, const Hanging&) = default;
  };
  std::vector<Hanging> hanging;
  /// The (KV head, kv) whose dK and dV are never complete, ascending.
  struct HangingDkv {
    KvHead kv_head;
    KvTile kv;
    friend auto operator<=>(const HangingDkv&, const HangingDkv&) = default;
  };
  std::vector<HangingDkv> hanging_dkv;
  std::int64_t stuck_tasks = 0;
  /// A shortest cycle of waits, each for the next (the last for the first); empty if there is none.
  std::vector<Wait> cycle;
  /// Waits for a value that never comes, at most 100; with a valid table there is none.
  std::vector<Wait> starved;
};

/// Plays the table without times, at the residency that is there. Requires tasks in range; ranks
/// may be anything. O(tasks) time, scratch memory for locks and lanes only; of a table that hangs,
/// 8 bytes a task. The cycle search of a deadlock is bounded, so on thousands of stuck lanes it may
/// be a cycle that is not the shortest.
[[nodiscard]] Liveness check_liveness(const Table& table, const Timing& timing);

}  // namespace stagger::dag
