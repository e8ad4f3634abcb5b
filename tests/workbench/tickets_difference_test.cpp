#include "core/order_digest.hpp"
#include "schedules/schedule.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random.hpp"
#include "workbench/tickets/difference.hpp"
#include "workbench/tickets/notation.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace stagger::tickets {
namespace {

std::string names_of(const std::vector<StepChange>& changes) {
  std::string names;
  for (const StepChange& change : changes) {
    const Task& task = (change.before ? *change.before : *change.after).task;
    names += (names.empty() ? "" : " ") + std::to_string(task.kv.value) + ":" +
             std::to_string(task.q.value);
  }
  return names;
}

TEST_CASE("what moved, what is another step's turn, and what that does to the bits") {
  const Tickets before = read_notation("P0: q0@0 q1@1 q2@2\nP1: q1@0 q2@1\nP2: q2@0\n");
  CHECK(difference(before, before).none());
  CHECK(difference(before, before).same_bits());

  const Tickets turned = read_notation("P0: q0@0 q2@2 q1@1\nP1: q1@0 q2@1\nP2: q2@0\n");
  const Difference order = difference(before, turned);
  CHECK(order.first->from == StepAt{Program{0}, 1});
  CHECK(std::ssize(order.moved) == 1);
  CHECK(order.retimed.empty());
  CHECK(order.dq_orders == 0);
  CHECK(order.dkv_orders == 1);

  const Tickets ranks = read_notation("P0: q0@0 q1@0 q2@2\nP1: q1@1 q2@1\nP2: q2@0\n");
  const Difference locks = difference(before, ranks);
  CHECK(locks.first->from == StepAt{Program{0}, 1});
  CHECK(locks.first->before->wait == 1);
  CHECK(locks.first->after->wait == 0);
  CHECK(names_of(locks.retimed) == "0:1 1:1");
  CHECK(locks.moved.empty());
  CHECK(locks.dq_orders == 1);
  CHECK(locks.dkv_orders == 0);

  const Tickets fewer = read_notation("P0: q0@0 q1@1 q2@2\nP1: q1@0\nP2: q2@0 q3@0\n");
  const Difference tasks = difference(before, fewer);
  CHECK(names_of(tasks.removed) == "1:2");
  CHECK(names_of(tasks.added) == "2:3");
  CHECK(tasks.first->from == StepAt{Program{1}, 1});
  CHECK_FALSE(tasks.first->after.has_value());
  CHECK(tasks.dq_orders == 2);   // q 2 and q 3
  CHECK(tasks.dkv_orders == 2);  // of kv 1 and kv 2
}

TEST_CASE("programs that change places take all their steps along") {
  const Tickets before = read_notation("P0: q0@0 q1@1\nP1: q1@0\n");
  Tickets after;
  after.initial = before.initial;
  for (const std::int32_t program : {1, 0}) {
    const auto steps = before.program(Program{program});
    after.steps.insert(after.steps.end(), steps.begin(), steps.end());
    after.end_program();
  }
  const Difference difference = tickets::difference(before, after);
  CHECK(std::ssize(difference.moved) == 3);
  CHECK(difference.moved.front().to == StepAt{Program{1}, 0});
  CHECK(difference.same_bits());
}

TEST_CASE("what waits for no turn is added up in its program's order") {
  const Tickets before = read_notation("P0: q0! k1.q0!\n");
  const Tickets after = read_notation("P0: k1.q0! q0!\n");
  CHECK(difference(before, before).same_bits());
  CHECK(difference(before, after).dq_orders == 1);
}

/// The most steps of a program that can stay: by trying every subset.
std::size_t most_that_stay(const std::vector<std::int64_t>& values) {
  std::size_t most = 0;
  for (std::uint32_t subset = 0; subset < 1U << values.size(); ++subset) {
    std::vector<std::int64_t> kept;
    for (std::size_t index = 0; index < values.size(); ++index)
      if ((subset >> index & 1U) != 0) kept.push_back(values[index]);
    if (std::is_sorted(kept.begin(), kept.end())) most = std::max(most, kept.size());
  }
  return most;
}

TEST_CASE("as few steps as possible are said to have moved") {
  test::Random random(test::seed(71));
  for (int round = 0; round < 200; ++round) {
    const auto steps = static_cast<std::int32_t>(random.between(0, 9));
    std::vector<std::int64_t> order(at(steps));
    std::iota(order.begin(), order.end(), 0);
    random.shuffle(order);
    Tickets before;
    Tickets after;
    for (std::int32_t q = 0; q < steps; ++q) {
      before.steps.push_back({.semaphore = Semaphore{q}, .wait = 0, .task = {{}, {}, QTile{q}}});
      const auto other = static_cast<std::int32_t>(order[at(q)]);
      after.steps.push_back(
          {.semaphore = Semaphore{other}, .wait = 0, .task = {{}, {}, QTile{other}}});
    }
    before.initial.assign(steps, 0);
    after.initial.assign(steps, 0);
    before.end_program();
    after.end_program();
    const Difference difference = tickets::difference(before, after);
    CHECK(difference.moved.size() == order.size() - most_that_stay(order));
    CHECK(difference.none() == std::is_sorted(order.begin(), order.end()));
  }
}

/// What is added to each sum, in order: by (head, q) and by chain, or by KV head and tile where
/// parts are combined.
using Sums = std::map<std::vector<std::int64_t>, std::vector<std::vector<std::int64_t>>>;

std::pair<Sums, Sums> sums_of(const Table& table) {
  std::pair<Sums, Sums> sums;
  for (Lane lane{0}; lane.value < table.lanes(); ++lane) {
    for (std::int64_t slot = table.begin_of(lane); slot < table.end_of(lane); ++slot) {
      const auto& [task, rank] = table.slots[slot];
      const std::int64_t chain = table.problem.chain_place(task);
      sums.first[{task.head.value, task.q.value}].push_back({rank, task.kv.value});
      auto& own = sums.second[{0, chain}];
      own.push_back({std::ssize(own), task.head.value, task.q.value});
      if (!table.ends_chain(lane, slot) || table.problem.combine != Combine::ordered) continue;
      sums.second[{1, table.problem.dkv_place(task)}].push_back({table.dkv_rank(task), chain});
    }
  }
  for (Sums* each : {&sums.first, &sums.second}) {
    for (auto& [sum, addends] : *each)
      std::ranges::sort(addends);
  }
  return sums;
}

std::int64_t apart(const Sums& before, const Sums& after) {
  std::int64_t count = 0;
  for (const auto& [sum, addends] : before)
    count += after.at(sum) != addends ? 1 : 0;
  return count;
}

TEST_CASE("sums in another order are counted as they are added up one by one") {
  test::Random random(test::seed(171));
  std::int64_t dq = 0;
  std::int64_t dkv = 0;
  for (int round = 0; round < 400; ++round) {
    Problem problem = test::random_problem(random, 4);
    if (random.chance(2)) problem = test::with_random_groups(random, std::move(problem), 3);
    const Table before = test::random_live_table(random, problem, Dispatch::in_order);
    Table after =
        random.chance(3) ? test::random_live_table(random, problem, Dispatch::in_order) : before;
    if (problem.combine == Combine::ordered && random.chance(2)) {
      test::shuffle_dkv_ranks(random, after);
    }
    const auto [dq_before, dkv_before] = sums_of(before);
    const auto [dq_after, dkv_after] = sums_of(after);
    const Difference difference = tickets::difference(from_table(before), from_table(after));
    CAPTURE(round);
    REQUIRE(difference.dq_orders == apart(dq_before, dq_after));
    REQUIRE(difference.dkv_orders == apart(dkv_before, dkv_after));
    dq += difference.dq_orders;
    dkv += difference.dkv_orders;
    if (difference.none()) REQUIRE(before.slots == after.slots);
  }
  CHECK(dq > 100);
  CHECK(dkv > 100);
}

TEST_CASE("a program more or less is where two tickets first differ") {
  const Tickets two = read_notation("P0: q0@0\nP1: q1@0\n");
  const Tickets three = read_notation("P0: q0@0\nP1: q1@0\nP2: q2@0\n");
  const Difference more = difference(two, three);
  CHECK(more.first->from == StepAt{Program{2}, 0});
  CHECK_FALSE(more.first->before.has_value());
  CHECK(names_of(more.added) == "2:2");
  const Difference fewer = difference(three, two);
  CHECK(fewer.first->from == StepAt{Program{2}, 0});
  CHECK_FALSE(fewer.first->after.has_value());
  CHECK(names_of(fewer.removed) == "2:2");
}

TEST_CASE("the bits of two tables are the same exactly where their digests are") {
  for (const char* mask : {"full", "causal", "sliding:left=2,right=1"}) {
    for (const std::int64_t heads_kv : {2, 4}) {
      for (const Combine combine : {Combine::partials, Combine::ordered}) {
        std::vector<std::pair<std::string, Table>> tables;
        const Grouping grouping{.heads_kv = heads_kv, .span = 1, .combine = combine};
        const Problem problem = make_problem(parse_mask(mask), {6, 6}, {}, 4, 3, grouping);
        for (const schedules::Schedule* schedule : schedules::all()) {
          const schedules::Selection selection = schedules::select(schedule->name);
          if (schedules::why_unsupported(selection, problem)) continue;
          tables.emplace_back(schedule->name, schedules::build(selection, problem, {}));
        }
        REQUIRE(tables.size() > 5);
        int alike = 0;
        for (const auto& [name, table] : tables) {
          for (const auto& [other_name, other] : tables) {
            CAPTURE(mask, heads_kv, name, other_name);
            const Difference difference = tickets::difference(from_table(table), from_table(other));
            const bool same = order_digest(table, 1, 64) == order_digest(other, 1, 64);
            CHECK(difference.same_bits() == same);
            alike += same ? 1 : 0;
          }
        }
        CHECK(alike >= static_cast<int>(tables.size()));
      }
    }
  }
}

}  // namespace
}  // namespace stagger::tickets
