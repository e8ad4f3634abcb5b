// All that is said of a table that hangs, against a play of the locks step by step: what never
// runs, who waits for what, which tiles hang, and how long the shortest cycle of waits is.

#include "dag/liveness.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/lock_play.hpp"
#include "tests/support/random.hpp"

#include <algorithm>
#include <tuple>
#include <vector>

namespace stagger::dag {
namespace {

using Played = test::LockPlay;

/// Compares the facts of one wait with the play's.
void check_wait(const Table& table, const Played& played, const Wait& wait) {
  REQUIRE(wait.launched == (wait.lane.value < played.launched()));
  if (!wait.launched) {
    REQUIRE(played.is_stuck(wait.for_lane));
    return;
  }
  const Played::Awaited awaited = played.awaited(wait.lane);
  REQUIRE(wait.dkv == std::get<0>(awaited.lock));
  REQUIRE(wait.rank == awaited.rank);
  REQUIRE(wait.value == awaited.value);
  REQUIRE(wait.kv_head == table.problem.kv_head_of(wait.task.head));
  REQUIRE((wait.dkv ? wait.kv_head.value : wait.task.head.value) == std::get<1>(awaited.lock));
  REQUIRE((wait.dkv ? wait.task.kv.value : wait.task.q.value) == std::get<2>(awaited.lock));
  if (!wait.promised) return;
  REQUIRE(wait.for_rank >= wait.value);
  REQUIRE(wait.for_rank < wait.rank);
  const auto* held = played.holder(awaited.lock, wait.for_rank);
  REQUIRE(held != nullptr);
  REQUIRE(held->first == wait.for_lane);
  REQUIRE(table.slots[held->second].task == wait.for_task);
}

/// The lanes whose wait nobody ends, though one that has no rank to wait for has none either.
std::vector<Lane> starved_lanes(const Table& table, const Played& played) {
  std::vector<Lane> starved;
  for (Lane lane{0}; lane.value < table.lanes(); ++lane) {
    if (!played.is_stuck(lane)) continue;
    const Played::Awaited wait = played.awaited(lane);
    const bool may_come = wait.rank > wait.value && wait.rank < wait.ranks;
    if (!may_come || played.holder(wait.lock, wait.rank - 1) == nullptr) starved.push_back(lane);
  }
  return starved;
}

void check_stuck(const Table& table, const Timing& timing, const Liveness& liveness) {
  const Played played(table, timing.release, std::max(liveness.residency_available, 1));
  REQUIRE_FALSE(played.complete());
  REQUIRE(liveness.stuck_tasks == played.stuck_tasks());
  REQUIRE(liveness.hanging == played.hanging());
  REQUIRE(liveness.hanging_dkv == played.hanging_dkv());
  REQUIRE(liveness.cycle.size() == played.shortest_cycle());
  for (std::size_t index = 0; index < liveness.cycle.size(); ++index) {
    const Wait& wait = liveness.cycle[index];
    check_wait(table, played, wait);
    REQUIRE((wait.promised || !wait.launched));
    REQUIRE(wait.for_lane == liveness.cycle[(index + 1) % liveness.cycle.size()].lane);
  }
  std::vector<Lane> starved;
  for (const Wait& wait : liveness.starved) {
    check_wait(table, played, wait);
    REQUIRE_FALSE(wait.promised);
    starved.push_back(wait.lane);
  }
  REQUIRE(starved == starved_lanes(table, played));
}

/// Lock values that are no order, none twice: one that nobody waits for, or those of KV tiles.
void spoil_ranks(test::Random& random, Table& table) {
  if (table.slots.empty()) return;
  Slot& slot = table.slots[random.between(0, std::ssize(table.slots) - 1)];
  const std::int32_t ranks = table.problem.contributions(slot.task);
  switch (random.between(0, 4)) {
    case 0:
      use_kv_index_ranks(table);
      break;
    case 1:
      slot.rank = -1;
      break;
    case 2:
      slot.rank = ranks + static_cast<std::int32_t>(random.between(0, 2));
      break;
    default:
      break;
  }
  if (!table.dkv_ranks.empty() && random.chance(4)) {
    table.dkv_ranks[table.problem.chain_place(slot.task)] = random.chance(2) ? -1 : 99;
  }
}

TEST_CASE("what is said of a table that hangs is what a play of its locks shows") {
  test::Random random(test::seed(47));
  std::int64_t hanging = 0;
  std::int64_t starving = 0;
  std::int64_t in_dkv = 0;
  std::int64_t unlaunched = 0;
  for (int round = 0; round < 4'000; ++round) {
    Table table = test::drawn_table(random, 4, [&] { return random.chance(3); });
    test::perhaps_shuffle_dkv_ranks(random, table);
    const Problem& problem = table.problem;
    spoil_ranks(random, table);
    const Timing timing = test::random_timing(random, problem);
    CAPTURE(round, problem.heads, problem.span, problem.sms, timing.residency,
            timing.release == Release::delayed, table.dispatch == Dispatch::static_);
    const Liveness liveness = check_liveness(table, timing);
    const std::int32_t resident = resident_lanes(problem, timing.residency);
    REQUIRE(liveness.residency_available == resident);
    std::int32_t needed = 0;
    for (std::int32_t sms = 1; sms <= std::max(table.lanes(), 1) && needed == 0; ++sms) {
      if (Played(table, timing.release, sms).complete()) needed = sms;
    }
    REQUIRE(liveness.residency_needed == needed);
    REQUIRE(liveness.live == (needed > 0 && needed <= resident));
    if (liveness.live) continue;
    check_stuck(table, timing, liveness);
    ++hanging;
    starving += liveness.starved.empty() ? 0 : 1;
    in_dkv += liveness.hanging_dkv.empty() ? 0 : 1;
    for (const Wait& wait : liveness.cycle)
      unlaunched += wait.launched ? 0 : 1;
  }
  CHECK(hanging > 1'000);
  CHECK(starving > 200);
  CHECK(in_dkv > 200);
  CHECK(unlaunched > 50);
}

}  // namespace
}  // namespace stagger::dag
