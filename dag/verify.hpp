#pragma once

#include "core/table.hpp"
#include "core/timing.hpp"
#include "dag/liveness.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace stagger::dag {

/// A way in which a table can be wrong.
enum class FindingKind {
  missing_task,           ///< a live tile that no slot has
  duplicate_task,         ///< a live tile that two slots have
  dead_task,              ///< a slot whose tile is empty
  task_out_of_range,      ///< a slot whose head, KV tile or Q tile does not exist
  rank_gap,               ///< a lock value of (head, q) that no slot waits for
  rank_duplicate,         ///< a lock value of (head, q) that two slots wait for
  rank_out_of_range,      ///< a lock value that (head, q)'s semaphore never shows
  chain_split,            ///< a chain that is not contiguous on one lane
  dkv_rank_gap,           ///< a lock value of (KV head, kv) that no chain waits for
  dkv_rank_duplicate,     ///< a lock value of (KV head, kv) that two chains wait for
  dkv_rank_out_of_range,  ///< a lock value that (KV head, kv)'s semaphore never shows
  too_many_lanes,         ///< static dispatch with more lanes than SMs
  deadlock,               ///< tasks that can never run
  co_residency,           ///< more CTAs must be resident at once than there are
};
[[nodiscard]] const char* finding_name(FindingKind kind);

/// A departure from an invariant, and where. Fields that do not apply are -1.
struct Finding {
  FindingKind kind = FindingKind::missing_task;
  std::string message;  ///< one sentence, with the place
  std::int32_t lane = -1;
  std::int64_t place = -1;  ///< the slot's, in its lane
  Task task{Head{-1}, KvTile{-1}, QTile{-1}};
  std::int32_t rank = -1;
};

/// What a verdict rests on.
enum class LockValues {
  ranks,     ///< positions among the live tiles: anything else is invalid
  absolute,  ///< as some kernels have them: what matters is whether they hang
};

enum class Verdict {
  ok,
  invalid,   ///< it is wrong, and runs to its end
  deadlock,  ///< it hangs, whatever else is wrong with it
};
[[nodiscard]] const char* verdict_name(Verdict verdict);

struct Verification {
  Verdict verdict = Verdict::ok;
  std::vector<Finding> findings;  ///< in the order found, at most `limit` of a kind
  std::int64_t total = 0;         ///< findings in all
  Liveness liveness;              ///< a task out of range is passed over: it touches no lock
};

/// Checks every invariant of a table: each live tile exactly once, ranks 0 … k-1 for every
/// (head, q), every KV tile contiguous on one lane, and that it runs to its end on the SMs that
/// are there. O(tasks) time on two cores; scratch memory for a bit a tile, for
/// locks, lanes and chains, and 8 bytes a task where a table hangs.
[[nodiscard]] Verification verify(const Table& table, const Timing& timing,
                                  LockValues values = LockValues::ranks, std::int64_t limit = 100);

}  // namespace stagger::dag
