#include "dag/verify.hpp"

#include "core/files.hpp"
#include "schedules/schedule.hpp"
#include "sim/simulate.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace stagger::dag {
namespace {

/// Full, 2 KV x 2 Q tiles on 2 SMs: a sound table to break.
Table sound() {
  return schedules::build(schedules::select("shift"),
                          make_problem(make_mask("full"), {2, 2}, {}, 1, 2));
}

std::vector<std::string> kinds(const Verification& verification) {
  std::vector<std::string> names;
  for (const Finding& finding : verification.findings) {
    names.emplace_back(finding_name(finding.kind));
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

using Names = std::vector<std::string>;

TEST_CASE("a sound table has no finding") {
  const Verification verification = verify(sound(), {});
  CHECK(verification.verdict == Verdict::ok);
  CHECK(verification.findings.empty());
  CHECK(verification.liveness.live);
}

TEST_CASE("each way to be wrong is a finding with its name and place") {
  Table table = sound();
  SECTION("missing task") {
    table.slots.pop_back();
    table.lane_begin.back() = 3;
    const Verification verification = verify(table, {});
    CHECK(verification.verdict == Verdict::invalid);
    CHECK(kinds(verification) == Names{"missing-task", "rank-gap"});
    CHECK(verification.findings.front().task == Task{Head{0}, KvTile{1}, QTile{0}});
  }
  SECTION("duplicate task") {
    table.slots[1] = table.slots[0];
    const Verification verification = verify(table, {});
    CHECK(kinds(verification) ==
          Names{"deadlock", "duplicate-task", "missing-task", "rank-duplicate", "rank-gap"});
    CHECK(verification.verdict == Verdict::deadlock);
    CHECK(verification.findings.front().lane == 0);
    CHECK(verification.findings.front().place == 1);
  }
  SECTION("task out of range") {
    table.slots[3].task.q = QTile{2};
    const Verification verification = verify(table, {});
    CHECK(kinds(verification) == Names{"task-out-of-range"});
    CHECK(verification.verdict == Verdict::invalid);
    CHECK(verification.findings.front().lane == 1);
    CHECK(verification.findings.front().place == 1);
  }
  SECTION("rank duplicate") {
    table.slots[1].rank = 0;  // Q tile 1 has ranks 0 and 0
    CHECK(kinds(verify(table, {})) == Names{"deadlock", "rank-duplicate", "rank-gap"});
  }
  SECTION("rank out of range") {
    table.slots[1].rank = 2;
    const Verification verification = verify(table, {});
    CHECK(verification.verdict == Verdict::deadlock);
    CHECK(kinds(verification) == Names{"deadlock", "rank-gap", "rank-out-of-range"});
    table.slots[1].rank = -1;
    CHECK(kinds(verify(table, {})) == Names{"deadlock", "rank-gap", "rank-out-of-range"});
  }
  SECTION("too many lanes") {
    table.problem.sms = 1;
    CHECK(kinds(verify(table, {})) == Names{"deadlock", "needs-co-residency", "too-many-lanes"});
    CHECK(verify(table, {}).verdict == Verdict::deadlock);
  }
}

TEST_CASE("tasks that are wrong are wrong whatever the lock values mean") {
  Table table = sound();
  Verdict expected = Verdict::invalid;
  CHECK(verify(table, {}, LockValues::absolute).verdict == Verdict::ok);
  SECTION("missing, behind all others") {
    table.slots.pop_back();
    table.lane_begin.back() = 3;
  }
  SECTION("missing, and no lock value tells") {
    table.slots.pop_back();
    table.lane_begin.back() = 3;
    use_kv_index_ranks(table);
  }
  SECTION("twice") {
    table.slots[1] = table.slots[0];
    expected = Verdict::deadlock;
  }
  SECTION("out of range") {
    table.slots[3].task.kv = KvTile{2};
  }
  SECTION("out of range, and others wait for what it should have been") {
    table.slots[0].task.kv = KvTile{2};
    expected = Verdict::deadlock;
  }
  SECTION("on more lanes than there are SMs") {
    table.problem.sms = 1;
    expected = Verdict::deadlock;
  }
  SECTION("on more lanes than there are SMs, which need not be there at once") {
    table.slots[0].rank = 0;
    table.slots[1].rank = 0;
    table.slots[2].rank = 1;
    table.slots[3].rank = 1;
    table.problem.sms = 1;
  }
  SECTION("an empty tile") {
    table.problem = test::tiles_problem({"ff", "f."}, 1, 2);
  }
  SECTION("a chain on two lanes") {
    table.lane_begin = {0, 1, 4};
    expected = Verdict::deadlock;  // (kv 0, q 1) waits for (kv 1, q 1), which is behind it now
  }
  CHECK(verify(table, {}, LockValues::absolute).verdict == expected);
  CHECK(verify(table, {}, LockValues::ranks).verdict == expected);
}

// SM 0: (kv 0, q 0) rank 2, an empty tile       SM 1: (kv 1, q 0) rank 0, (kv 2, q 0) rank 1
// Only the empty tile comes after all contributions: the lock shows its rank, though no rank of
// the tile is so high.
TEST_CASE("a task too many that comes last is wrong, and hangs nothing, wherever its lane is") {
  for (const bool first : {false, true}) {
    Table table;
    table.problem = test::tiles_problem({".", "f", "f"}, 1, 2);
    const Slot extra{{Head{0}, KvTile{0}, QTile{0}}, 2};
    if (first) {
      table.slots.push_back(extra);
      table.end_lane();
    }
    table.slots.push_back({{Head{0}, KvTile{1}, QTile{0}}, 0});
    table.slots.push_back({{Head{0}, KvTile{2}, QTile{0}}, 1});
    table.end_lane();
    if (!first) {
      table.slots.push_back(extra);
      table.end_lane();
    }
    CAPTURE(first);
    CHECK(verify(table, {}).verdict == Verdict::invalid);
    CHECK(sim::simulate(table, {}).complete);
  }
}

// SM 0: (kv 0, q 0) rank 0, (kv 0, q 1) rank 1      SM 1: (kv 1, q 0) rank 0, (kv 1, q 1) rank 0
// SM 0 keeps the lock of q 0 until it reduces into q 1, and that waits for SM 1, which finds the
// lock of q 0 at 0 as well. With an immediate release SM 1 hangs.
TEST_CASE("a rank that is there twice is found where a delayed release lets the table run") {
  Table table = sound();
  table.slots = {{{Head{0}, KvTile{0}, QTile{0}}, 0},
                 {{Head{0}, KvTile{0}, QTile{1}}, 1},
                 {{Head{0}, KvTile{1}, QTile{0}}, 0},
                 {{Head{0}, KvTile{1}, QTile{1}}, 0}};
  const Verification delayed = verify(table, {.release = Release::delayed});
  CHECK(delayed.liveness.live);
  CHECK(delayed.verdict == Verdict::invalid);
  CHECK(kinds(delayed) == Names{"rank-duplicate", "rank-gap"});
  CHECK(kinds(verify(table, {})) == Names{"deadlock", "rank-duplicate", "rank-gap"});
}

TEST_CASE("a dead tile in a lane is a finding") {
  Table table;
  table.problem = test::tiles_problem({"f.", "ff"}, 1, 2);
  table.slots = {{{Head{0}, KvTile{0}, QTile{0}}, 0}, {{Head{0}, KvTile{0}, QTile{1}}, 0}};
  table.end_lane();
  table.slots.push_back({{Head{0}, KvTile{1}, QTile{0}}, 1});
  table.slots.push_back({{Head{0}, KvTile{1}, QTile{1}}, 0});
  table.end_lane();
  const Verification verification = verify(table, {});
  CHECK(verification.verdict == Verdict::deadlock);  // it takes the turn of (kv 1, q 1)
  CHECK(verification.findings.front().kind == FindingKind::dead_task);
  CHECK(verification.findings.front().place == 1);
}

TEST_CASE("a KV tile that is not contiguous on one lane is split") {
  Table table;
  table.problem = make_problem(make_mask("full"), {2, 2}, {}, 1, 2);
  const auto slot = [](std::int32_t kv, std::int32_t q, std::int32_t rank) {
    return Slot{{Head{0}, KvTile{kv}, QTile{q}}, rank};
  };
  SECTION("interrupted") {
    table.slots = {slot(0, 0, 0), slot(1, 0, 1), slot(0, 1, 0), slot(1, 1, 1)};
    table.end_lane();
    const Verification verification = verify(table, {});
    CHECK(kinds(verification) == Names{"chain-split"});
    CHECK(verification.total == 2);
  }
  SECTION("on two SMs") {
    table.slots = {slot(0, 0, 0), slot(1, 0, 1), slot(1, 1, 1)};
    table.end_lane();
    table.slots.push_back(slot(0, 1, 0));
    table.end_lane();
    CHECK(kinds(verify(table, {})) == Names{"chain-split"});
    CHECK(verify(table, {}).verdict == Verdict::invalid);
  }
}

TEST_CASE("findings of a kind are limited, their total is not") {
  Table table = schedules::build(schedules::select("ascending"),
                                 make_problem(make_mask("full"), {20, 20}, {}, 1, 20));
  for (Slot& slot : table.slots)
    slot.rank = 0;
  const Verification verification = verify(table, {}, LockValues::ranks, 5);
  CHECK(verification.findings.size() == 11);  // 5 duplicates, 5 gaps, 1 deadlock
  CHECK(verification.total == 2 * 380 + 1);
}

TEST_CASE("any one wrong rank or task in a random table is found") {
  test::Random random(test::seed(9));
  for (int round = 0; round < 3'000; ++round) {
    const Problem problem = test::any_problem(random, 5);
    Table table = test::random_live_table(random, problem, Dispatch::static_);
    if (table.slots.empty()) continue;
    REQUIRE(verify(table, {}).verdict == Verdict::ok);
    test::break_slot(random, table);
    CAPTURE(round);
    REQUIRE(verify(table, {}).verdict != Verdict::ok);
  }
}

/// Whether some task never runs: whatever may move does, one task at a time, until nothing does.
bool naive_hangs(const Table& table) {
  std::map<std::pair<Head, QTile>, std::int32_t> locks;
  std::vector<std::int64_t> next(table.lane_begin.begin(), table.lane_begin.end() - 1);
  std::int64_t ended = 0;
  for (bool moved = true; moved;) {
    moved = false;
    std::int64_t resident = 0;
    ended = 0;
    for (Lane lane{0}; lane.value < table.lanes(); ++lane) {
      std::int64_t& slot = next[at(lane)];
      if (slot < table.end_of(lane) && ++resident <= table.problem.sms) {
        const auto& [task, rank] = table.slots[slot];
        std::int32_t& lock = locks[{task.head, task.q}];
        if (lock == rank) {
          ++lock;
          ++slot;
          moved = true;
        }
      }
      ended += slot == table.end_of(lane) ? 1 : 0;
    }
  }
  return ended < table.lanes();
}

TEST_CASE("a table whose tasks all exist is what exists of it") {
  Table table = sound();
  table.dispatch = Dispatch::in_order;
  table.dkv_ranks = {1, 0};
  const Table same = existing_tasks(table);
  CHECK(same.name == table.name);
  CHECK(same.dispatch == table.dispatch);
  CHECK(same.slots == table.slots);
  CHECK(same.lane_begin == table.lane_begin);
  CHECK(same.dkv_ranks == table.dkv_ranks);
  table.slots[1].task.head = Head{1};
  CHECK(existing_tasks(table).lane_begin == IndexVector<std::int64_t, std::int64_t>{0, 1, 3});
}

TEST_CASE("a table hangs or ends as its locks say, however wrong it is") {
  test::Random random(test::seed(23));
  std::int64_t wrong = 0;
  std::int64_t hanging = 0;
  for (int round = 0; round < 2'000; ++round) {
    const Dispatch dispatch = random.chance(2) ? Dispatch::static_ : Dispatch::in_order;
    Table table = test::random_live_table(random, test::any_problem(random, 3), dispatch);
    for (std::int64_t broken = random.between(1, 3); broken > 0 && !table.slots.empty(); --broken) {
      (random.chance(2) ? test::break_slot : test::break_lane)(random, table);
    }
    const Verdict verdict = verify(table, {}).verdict;
    const Table known = existing_tasks(table);
    const bool hangs = naive_hangs(known);
    CAPTURE(round);
    REQUIRE((verdict == Verdict::deadlock) == hangs);
    REQUIRE(sim::simulate(known, {}).complete == !hangs);
    wrong += verdict == Verdict::invalid ? 1 : 0;
    hanging += hangs ? 1 : 0;
  }
  CHECK(wrong > 100);
  CHECK(hanging > 300);
}

}  // namespace
}  // namespace stagger::dag
