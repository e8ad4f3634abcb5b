#include "dag/verify.hpp"

#include "core/files.hpp"
#include "schedules/schedule.hpp"
#include "sim/simulate.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random.hpp"

#include <algorithm>

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
  CHECK(verification.liveness->live);
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
    CHECK(verification.verdict == Verdict::invalid);
    CHECK(kinds(verification) ==
          Names{"deadlock", "duplicate-task", "missing-task", "rank-duplicate", "rank-gap"});
    CHECK(verification.findings.front().lane == 0);
    CHECK(verification.findings.front().place == 1);
  }
  SECTION("task out of range") {
    table.slots[3].task.q = QTile{2};
    const Verification verification = verify(table, {});
    CHECK(kinds(verification) == Names{"task-out-of-range"});
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
    CHECK(verification.verdict == Verdict::invalid);
    CHECK(kinds(verification) == Names{"deadlock", "rank-gap", "rank-out-of-range"});
    table.slots[1].rank = -1;
    CHECK(kinds(verify(table, {})) == Names{"deadlock", "rank-gap", "rank-out-of-range"});
  }
  SECTION("too many lanes") {
    table.problem.sms = 1;
    CHECK(kinds(verify(table, {})) == Names{"deadlock", "needs-co-residency", "too-many-lanes"});
    CHECK(verify(table, {}).verdict == Verdict::invalid);
  }
}

TEST_CASE("tasks that are wrong are wrong whatever the lock values mean") {
  Table table = sound();
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
  }
  SECTION("out of range") {
    table.slots[3].task.kv = KvTile{2};
  }
  SECTION("on more lanes than there are SMs") {
    table.problem.sms = 1;
  }
  SECTION("an empty tile") {
    table.problem = test::tiles_problem({"ff", "f."}, 1, 2);
  }
  SECTION("a chain on two lanes") {
    table.lane_begin = {0, 1, 4};
  }
  CHECK(verify(table, {}, LockValues::absolute).verdict == Verdict::invalid);
  CHECK(verify(table, {}, LockValues::ranks).verdict == Verdict::invalid);
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
  CHECK(verification.verdict == Verdict::invalid);
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
    CHECK(kinds(verification) == Names{"split-chain"});
    CHECK(verification.total == 2);
  }
  SECTION("on two SMs") {
    table.slots = {slot(0, 0, 0), slot(1, 0, 1), slot(1, 1, 1)};
    table.end_lane();
    table.slots.push_back(slot(0, 1, 0));
    table.end_lane();
    CHECK(kinds(verify(table, {})) == Names{"split-chain"});
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
  test::Random random(9);
  for (int round = 0; round < 3'000; ++round) {
    const Problem problem = test::random_problem(random, 5);
    Table table = test::random_live_table(random, problem, Dispatch::static_);
    if (table.slots.empty()) continue;
    REQUIRE(verify(table, {}).verdict == Verdict::ok);
    Slot& slot =
        table.slots[static_cast<std::size_t>(random.between(0, std::ssize(table.slots) - 1))];
    switch (random.between(0, 3)) {
      case 0:
        slot.rank += random.chance(2) ? 1 : -1;
        break;
      case 1:
        slot.task.q.value = (slot.task.q.value + 1) % (problem.grid.q_tiles() + 1);
        break;
      case 2:
        slot.task.kv.value = (slot.task.kv.value + 1) % (problem.grid.kv_tiles() + 1);
        break;
      default:
        slot.task.head.value += 1;
    }
    CAPTURE(round);
    REQUIRE(verify(table, {}).verdict == Verdict::invalid);
  }
}

}  // namespace
}  // namespace stagger::dag
