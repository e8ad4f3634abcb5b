#include "dag/liveness.hpp"

#include "dag/verify.hpp"
#include "schedules/schedule.hpp"
#include "sim/simulate.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random.hpp"

#include <algorithm>
#include <chrono>
#include <map>

namespace stagger::dag {
namespace {

Slot slot(std::int32_t kv, std::int32_t q, std::int32_t rank) {
  return {{Head{0}, KvTile{kv}, QTile{q}}, rank};
}

// SM 0: (kv 0, q 0) rank 1, then (kv 0, q 1) rank 0      each waits for what the other
// SM 1: (kv 1, q 1) rank 1, then (kv 1, q 0) rank 0      has behind it
Table crossed() {
  Table table;
  table.problem = make_problem(make_mask("full"), {2, 2}, {}, 1, 2);
  table.slots = {slot(0, 0, 1), slot(0, 1, 0)};
  table.end_lane();
  table.slots.insert(table.slots.end(), {slot(1, 1, 1), slot(1, 0, 0)});
  table.end_lane();
  return table;
}

TEST_CASE("two SMs that wait for each other are a cycle of two") {
  const Liveness liveness = check_liveness(crossed(), {});
  CHECK_FALSE(liveness.live);
  CHECK(liveness.residency_needed == 0);
  CHECK(liveness.stuck_tasks == 4);
  CHECK(liveness.hanging.size() == 2);
  REQUIRE(liveness.cycle.size() == 2);
  CHECK(describe(liveness.cycle, Dispatch::static_) ==
        std::vector<std::string>{
            "SM 0 is at (head 0, kv 0, q 0) and waits for lock value 1 of dQ(head 0, q 0), which "
            "shows 0: (head 0, kv 1, q 0), rank 0, must reduce first, and that is on SM 1",
            "SM 1 is at (head 0, kv 1, q 1) and waits for lock value 1 of dQ(head 0, q 1), which "
            "shows 0: (head 0, kv 0, q 1), rank 0, must reduce first, and that is on SM 0"});
}

TEST_CASE("an SM that waits for what comes behind it is a cycle of one") {
  Table table;
  table.problem = make_problem(make_mask("full"), {1, 2}, {}, 1, 1);
  table.slots = {slot(1, 0, 1), slot(0, 0, 0)};
  table.end_lane();
  const Liveness liveness = check_liveness(table, {});
  REQUIRE(liveness.cycle.size() == 1);
  CHECK(describe(liveness.cycle, Dispatch::static_).front().find("behind it on the same SM") !=
        std::string::npos);
}

TEST_CASE("a CTA that waits for one not launched needs co-residency") {
  // CTA 0 waits for CTA 1, so one resident CTA is not enough.
  Table table;
  table.problem = make_problem(make_mask("full"), {1, 2}, {}, 1, 2);
  table.dispatch = Dispatch::in_order;
  table.slots = {slot(0, 0, 1)};
  table.end_lane();
  table.slots.push_back(slot(1, 0, 0));
  table.end_lane();
  CHECK(check_liveness(table, {}).live);
  CHECK(check_liveness(table, {}).residency_needed == 2);
  const Verification one = verify(table, {.residency = 1});
  CHECK(one.verdict == Verdict::deadlock);
  CHECK(one.findings.back().kind == FindingKind::co_residency);
  REQUIRE(one.liveness.cycle.size() == 2);
  CHECK(describe(one.liveness.cycle, Dispatch::in_order).back() ==
        "CTA 1 is not launched: it waits for an SM, and CTA 0 holds one");
}

TEST_CASE("absolute lock values hang on the published block-sparse example as published") {
  Table table =
      schedules::build(schedules::select("fa4-sparse"),
                       make_problem(parse_mask("document:lengths=366+25+80+364+149+21+12+3+3+1"),
                                    {1024, 1024}, {128, 128}, 1, 8));
  CHECK(verify(table, {}).verdict == Verdict::ok);
  use_kv_index_ranks(table);
  const Verification verification = verify(table, {}, LockValues::absolute);
  CHECK(verification.verdict == Verdict::deadlock);
  std::vector<std::int32_t> hanging;
  for (const auto& [head, q] : verification.liveness.hanging)
    hanging.push_back(q.value);
  CHECK(hanging == std::vector<std::int32_t>{3, 4, 5, 6, 7});
  CHECK(verification.liveness.cycle.empty());
  CHECK_FALSE(verification.liveness.starved.empty());
}

TEST_CASE("absolute lock values on a mask without empty tiles do not hang") {
  Table table = schedules::build(schedules::select("ascending"),
                                 make_problem(make_mask("full"), {4, 4}, {}, 2, 4));
  use_kv_index_ranks(table);
  CHECK(verify(table, {}, LockValues::absolute).verdict == Verdict::ok);
}

TEST_CASE("the residency needed is the smallest at which the simulator finishes") {
  test::Random random(4);
  std::int64_t above_one = 0;
  std::int64_t never = 0;
  for (int round = 0; round < 3'000; ++round) {
    const Problem problem = test::any_problem(random, 4);
    const Dispatch dispatch = random.chance(2) ? Dispatch::static_ : Dispatch::in_order;
    Table table = random.chance(2) ? test::random_live_table(random, problem, dispatch)
                                   : test::random_table(random, problem, dispatch);
    table.problem.sms = std::max(table.problem.sms, table.lanes());
    Timing timing;
    timing.release = random.chance(2) ? Release::delayed : Release::immediate;
    const std::int32_t needed = check_liveness(table, timing).residency_needed;
    std::int32_t smallest = 0;
    for (timing.residency = 1; timing.residency <= table.lanes() && smallest == 0;
         ++timing.residency) {
      if (sim::simulate(table, timing).complete) smallest = timing.residency;
    }
    CAPTURE(round);
    REQUIRE(needed == smallest);
    above_one += smallest > 1 ? 1 : 0;
    never += smallest == 0 ? 1 : 0;
  }
  CHECK(above_one > 100);
  CHECK(never > 100);
}

/// The (head, q) whose locks do not reach their last value, by playing whatever moves until nothing
/// does, all lanes resident.
std::vector<Liveness::Hanging> naive_hanging(const Table& table, Release release) {
  std::map<Liveness::Hanging, std::int32_t> locks;
  for (const Slot& slot : table.slots)
    locks.emplace(Liveness::Hanging{slot.task.head, slot.task.q}, 0);
  const auto lock = [&](std::int64_t slot) -> std::int32_t& {
    const Task& task = table.slots[slot].task;
    return locks.at({task.head, task.q});
  };
  std::vector<std::int64_t> next(table.lane_begin.begin(), table.lane_begin.end() - 1);
  for (bool moved = true; moved;) {
    moved = false;
    for (Lane lane{0}; lane.value < table.lanes(); ++lane) {
      std::int64_t& slot = next[at(lane)];
      if (slot == table.end_of(lane) || lock(slot) != table.slots[slot].rank) continue;
      const bool delayed = release == Release::delayed;
      if (delayed && !table.begins_chain(lane, slot)) ++lock(slot - 1);
      if (!delayed || table.ends_chain(lane, slot)) ++lock(slot);
      ++slot;
      moved = true;
    }
  }
  std::vector<Liveness::Hanging> hanging;
  for (const auto& [tile, value] : locks) {
    if (value < table.problem.contributions(tile.head, tile.q)) hanging.push_back(tile);
  }
  return hanging;
}

TEST_CASE("the tiles that hang are those whose locks stop short, under either release") {
  test::Random random(16);
  std::int64_t delayed = 0;
  std::int64_t others_end = 0;
  for (int round = 0; round < 3'000; ++round) {
    Problem problem = test::any_problem(random, 5);
    problem.sms = 8;
    const Table table = random.chance(2)
                            ? test::random_table(random, problem, Dispatch::static_)
                            : schedules::build(schedules::select("ascending"), problem);
    Timing timing;
    timing.release = random.chance(2) ? Release::delayed : Release::immediate;
    const Liveness liveness = check_liveness(table, timing);
    CAPTURE(round, timing.release == Release::delayed);
    REQUIRE(liveness.hanging == naive_hanging(table, timing.release));
    REQUIRE(liveness.live == liveness.hanging.empty());
    if (liveness.live) continue;
    delayed += timing.release == Release::delayed ? 1 : 0;
    const std::int64_t locks = std::int64_t{problem.heads} * problem.q_tiles();
    others_end += std::ssize(liveness.hanging) < locks ? 1 : 0;
  }
  CHECK(delayed > 300);
  CHECK(others_end > 200);
}

/// Lanes that all wait for one another and for SMs: a search from each for the shortest cycle would
/// take the square of their number.
Table many_stuck(std::int32_t lanes) {
  Table table;
  table.problem = make_problem(make_mask("full"), {1, lanes}, {}, 1, lanes);
  table.dispatch = Dispatch::in_order;
  for (std::int32_t lane = 0; lane < lanes; ++lane) {
    table.slots.push_back(slot(lane, 0, (lane + 1) % lanes));
    table.end_lane();
  }
  return table;
}

TEST_CASE("a cycle of waits is found among a hundred thousand stuck lanes, in bounded time") {
  const Table table = many_stuck(100'000);
  const auto start = std::chrono::steady_clock::now();
  const Liveness liveness = check_liveness(table, {.residency = 50'000});
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(20));
  CHECK_FALSE(liveness.live);
  CHECK(liveness.residency_needed == 100'000);
  REQUIRE_FALSE(liveness.cycle.empty());
  for (std::size_t index = 0; index < liveness.cycle.size(); ++index) {
    const Wait& next = liveness.cycle[(index + 1) % liveness.cycle.size()];
    REQUIRE(liveness.cycle[index].for_lane == next.lane);
  }
}

TEST_CASE("where the search for a shortest cycle ends first, a walk finds one") {
  // Lanes 0 … 1,999 wait for all that are before them at Q tile 0, which two more, which wait for
  // each other, keep back. Another one is done at once: the first lane, or the last.
  constexpr std::int32_t kWaiting = 2'000;
  const bool first = GENERATE(true, false);
  std::vector<std::string> rows(kWaiting, "f..");
  rows.insert(rows.end(), {"ff.", "ff.", "..f"});
  Table table;
  table.problem = test::tiles_problem(rows, 1, kWaiting + 3);
  const auto add_done = [&] {
    table.slots.push_back(slot(kWaiting + 2, 2, 0));
    table.end_lane();
  };
  if (first) add_done();
  for (std::int32_t lane = 0; lane < kWaiting; ++lane) {
    table.slots.push_back(slot(lane, 0, lane + 2));
    table.end_lane();
  }
  table.slots.insert(table.slots.end(), {slot(kWaiting, 0, 1), slot(kWaiting, 1, 0)});
  table.end_lane();
  table.slots.insert(table.slots.end(), {slot(kWaiting + 1, 1, 1), slot(kWaiting + 1, 0, 0)});
  table.end_lane();
  if (!first) add_done();
  const Liveness liveness = check_liveness(table, {});
  REQUIRE(liveness.cycle.size() == 2);
  CHECK(liveness.cycle[0].for_lane == liveness.cycle[1].lane);
  CHECK(liveness.cycle[1].for_lane == liveness.cycle[0].lane);
  CHECK(verify(table, {}).verdict == Verdict::deadlock);
}

TEST_CASE("every cycle found is one: each wait is for the next one's lane") {
  test::Random random(6);
  std::int64_t cycles = 0;
  for (int round = 0; round < 3'000; ++round) {
    const Problem problem = test::any_problem(random, 5);
    const Table table = test::random_table(random, problem, Dispatch::static_);
    const Liveness liveness = check_liveness(table, {});
    REQUIRE(liveness.live == liveness.cycle.empty());
    for (std::size_t index = 0; index < liveness.cycle.size(); ++index) {
      const Wait& wait = liveness.cycle[index];
      REQUIRE(wait.for_lane == liveness.cycle[(index + 1) % liveness.cycle.size()].lane);
      REQUIRE(wait.for_rank < wait.rank);
      REQUIRE(wait.for_rank >= wait.value);
      REQUIRE(wait.for_task.q == wait.task.q);
    }
    cycles += liveness.live ? 0 : 1;
  }
  CHECK(cycles > 500);
}

TEST_CASE("of many lanes that wait for nobody a hundred are listed") {
  for (const std::int32_t lanes : {99, 100, 150}) {
    // Each lane waits for rank 0 of a tile of its own, and has rank 1 itself.
    Table table;
    table.problem = make_problem(make_mask("full"), {1, 1}, {}, lanes, lanes);
    for (Head head{0}; head.value < lanes; ++head) {
      table.slots.push_back({.task = {head, KvTile{0}, QTile{0}}, .rank = 1});
      table.end_lane();
    }
    const Liveness found = verify(table, {}).liveness;
    CAPTURE(lanes);
    CHECK_FALSE(found.live);
    CHECK(std::ssize(found.starved) == std::min(lanes, 100));
    CHECK(found.stuck_tasks == lanes);
  }
}

}  // namespace
}  // namespace stagger::dag
