#include "schedules/search/incremental.hpp"

#include "schedules/search/evaluate.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random.hpp"

#include <optional>
#include <utility>

namespace stagger::search {
namespace {

/// A change to a table's play: the Q tiles of two slots of a chain, or a rank and the one before.
struct Change {
  std::size_t slot = 0;
  std::size_t other = 0;
  bool ranks = false;
};

std::optional<Change> random_change(test::Random& random, const Table& table) {
  const auto most = static_cast<std::int64_t>(table.slots.size()) - 1;
  const auto slot = static_cast<std::size_t>(random.between(0, most));
  const auto& [task, rank] = table.slots[slot];
  if (random.chance(2)) {
    for (std::size_t other = 0; other < table.slots.size(); ++other) {
      const Slot& before = table.slots[other];
      const bool tile = before.task.head == task.head && before.task.q == task.q;
      if (tile && before.rank + 1 == rank) return Change{slot, other, true};
    }
    return std::nullopt;
  }
  const std::size_t other = slot + static_cast<std::size_t>(random.between(1, 3));
  if (other >= table.slots.size()) return std::nullopt;
  const Task& next = table.slots[other].task;
  if (next.head != task.head || next.kv != task.kv) return std::nullopt;
  return Change{slot, other, false};
}

Table changed(Table table, const Change& change) {
  if (change.ranks) {
    std::swap(table.slots[change.slot].rank, table.slots[change.other].rank);
  } else {
    std::swap(table.slots[change.slot], table.slots[change.other]);
  }
  return table;
}

TEST_CASE("a change is kept if playing the whole table again stays within the limit") {
  test::Random random(test::seed(72));
  std::int64_t kept = 0;
  std::int64_t undone = 0;
  std::int64_t passing = 0;  // undone since times passed the limit on the way
  for (int round = 0; round < 600; ++round) {
    const Problem problem = test::any_problem(random, 6);
    if (problem.tasks() == 0) continue;
    Table table = test::random_live_table(random, problem, Dispatch::static_);
    Timing timing = test::random_timing(random, problem);
    timing.residency = 0;
    const auto whole = makespan_of(table, timing);
    if (!whole) continue;  // hangs under a delayed release
    CAPTURE(round, timing.model == Model::overlap, timing.release == Release::delayed);
    IncrementalPlay play(table, timing);
    REQUIRE(play.makespan() == *whole);
    for (int move = 0; move < 30; ++move) {
      const std::optional<Change> change = random_change(random, table);
      if (!change) continue;
      const Table before = table;
      const Table after = changed(table, *change);
      const std::optional<Ticks> played = makespan_of(after, timing);
      const Ticks makespan = play.makespan();
      // Often to the tick what it takes, or one less.
      const Ticks limit = played && random.chance(2) ? *played - random.between(0, 1)
                                                     : makespan + random.between(-2, 8);
      CAPTURE(move, change->slot, change->other, change->ranks, limit, played.value_or(-1));
      const bool keeps = change->ranks ? play.exchange_ranks(change->slot, limit)
                                       : play.exchange_q(change->slot, change->other, limit);
      if (keeps) REQUIRE((played && *played <= limit));
      if (!keeps && played && *played <= limit) ++passing;
      ++(keeps ? kept : undone);
      REQUIRE(table.slots == (keeps ? after : before).slots);
      REQUIRE(play.makespan() == (keeps ? *played : makespan));
    }
  }
  CHECK(kept > 2'000);
  CHECK(undone > 2'000);
  CHECK(passing < kept / 10);
}

TEST_CASE("a change that deadlocks is undone") {
  // Two SMs, each with both Q tiles: exchanging one accumulation makes a cycle.
  Table table;
  table.problem = make_problem(make_mask("full"), {2, 2}, {}, 1, 2);
  table.slots = {{{Head{0}, KvTile{0}, QTile{0}}, 0},
                 {{Head{0}, KvTile{0}, QTile{1}}, 0},
                 {{Head{0}, KvTile{1}, QTile{0}}, 1},
                 {{Head{0}, KvTile{1}, QTile{1}}, 1}};
  table.lane_begin = {0, 2, 4};
  const Timing timing;
  IncrementalPlay play(table, timing);
  const std::vector<Slot> before = table.slots;
  REQUIRE(play.exchange_q(0, 1, 1'000));
  // SM 0 would wait for SM 1's second task, and SM 1 for SM 0's.
  REQUIRE_FALSE(play.exchange_ranks(3, 1'000));
  CHECK(play.exchange_q(0, 1, 1'000));
  CHECK(table.slots == before);
  CHECK(play.makespan() == makespan_of(table, timing));
}

}  // namespace
}  // namespace stagger::search
