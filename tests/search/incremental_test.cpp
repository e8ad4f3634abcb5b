#include "schedules/search/incremental.hpp"

#include "schedules/search/evaluate.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random.hpp"

namespace stagger::search {
namespace {

/// A random change to a table's play; whether there was one to make and it was kept.
bool change(test::Random& random, const Table& table, IncrementalPlay& play, Ticks limit) {
  const auto most = static_cast<std::int64_t>(table.slots.size()) - 1;
  const auto slot = static_cast<std::size_t>(random.between(0, most));
  const Slot& of = table.slots[slot];
  if (random.chance(2)) return of.rank > 0 && play.exchange_ranks(slot, limit);
  const std::size_t other = slot + static_cast<std::size_t>(random.between(1, 3));
  if (other >= table.slots.size()) return false;
  const Task& task = table.slots[other].task;
  if (task.head != of.task.head || task.kv != of.task.kv) return false;
  return play.exchange_q(slot, other, limit);
}

TEST_CASE("after every change the times are those of playing the whole table again") {
  test::Random random(72);
  std::int64_t kept = 0;
  std::int64_t undone = 0;
  for (int round = 0; round < 600; ++round) {
    const Problem problem = test::random_problem(random, 6);
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
      const std::vector<Slot> before = table.slots;
      const Ticks makespan = play.makespan();
      const Ticks limit = makespan + random.between(-2, 8);
      if (change(random, table, play, limit)) {
        ++kept;
        REQUIRE(play.makespan() <= limit);
        REQUIRE(makespan_of(table, timing) == play.makespan());
      } else {
        undone += table.slots == before ? 1 : 0;
        REQUIRE(table.slots == before);
        REQUIRE(play.makespan() == makespan);
      }
    }
  }
  CHECK(kept > 2'000);
  CHECK(undone > 2'000);
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
