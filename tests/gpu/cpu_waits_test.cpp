#include "dag/liveness.hpp"
#include "gpu/check/cross_check.hpp"
#include "gpu/cpu/executor.hpp"
#include "schedules/schedule.hpp"
#include "tests/gpu/executor_case.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random.hpp"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

namespace stagger::gpu {
namespace {

using test::Random;

TEST_CASE("random tables finish or hang as the liveness check says, with any residency") {
  Random random(20260303);
  std::int64_t hanging = 0;
  std::int64_t finished = 0;
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    const Problem problem = test::any_problem(random, 5);
    Timing timing = test::random_timing(random, problem);
    const Dispatch dispatch = random.chance(2) ? Dispatch::static_ : Dispatch::in_order;
    const Table table = random.chance(2) ? test::random_table(random, problem, dispatch)
                                         : test::random_live_table(random, problem, dispatch);
    const dag::Liveness liveness = dag::check_liveness(table, timing);
    const Attention attention = attention_of(problem, 1);
    BackwardOptions options{.release = timing.release,
                            .residency = timing.residency,
                            .timeout = kPatience,
                            .threads = static_cast<std::int32_t>(random.between(1, 4))};
    if (round % 10 == 0) options.perturb = static_cast<std::uint64_t>(round);
    const Backward run = backward_on_cpu(table, attention, options);
    REQUIRE(run.outcome == (liveness.live ? Outcome::finished : Outcome::deadlock));
    REQUIRE(order_faults(table, run).empty());
    REQUIRE(waits(table, run).empty() == liveness.live);
    std::int64_t left = 0;
    for (Lane lane{0}; lane.value < table.lanes(); ++lane) {
      const auto place = static_cast<std::size_t>(lane.value);
      left += table.lane_begin[place + 1] - run.next_slots[place];
    }
    REQUIRE(left == liveness.stuck_tasks);
    (liveness.live ? finished : hanging) += 1;
    // What a device that cannot see itself is told of the same end.
    if (!liveness.live) {
      REQUIRE(outcome_when_stopped(table, run, liveness.residency_available) == Outcome::deadlock);
    }
    if (liveness.live) {
      check_gradients(run.gradients, reference_gradients(attention),
                      error_bound(attention.shape, Dtype::fp32));
    }
  }
  CHECK(hanging > 50);
  CHECK(finished > 60);
}

TEST_CASE("the block-sparse deadlock: absolute lock values hang the published Q tiles") {
  const Problem problem = make_problem(parse_mask("document:lengths=366+25+80+364+149+21+12+3+3+1"),
                                       {1024, 1024}, {128, 128}, 1, 0);
  Table table = schedules::build(schedules::select("fa4-sparse"), problem);
  const Attention attention = attention_of(problem, 1);
  CHECK(backward_on_cpu(table, attention, {.timeout = kPatience}).outcome == Outcome::finished);
  use_kv_index_ranks(table);
  const Backward run = backward_on_cpu(table, attention, {.timeout = kPatience});
  CHECK(run.outcome == Outcome::deadlock);
  std::vector<std::int32_t> finish;
  for (QTile q{0}; q.value < 8; ++q) {
    const auto place = static_cast<std::size_t>(q.value);
    if (run.lock_values[place] == problem.common_grid().contributions(q)) finish.push_back(q.value);
  }
  CHECK(finish == std::vector<std::int32_t>{0, 1, 2});
  const std::vector<Wait> stuck = waits(table, run);
  std::vector<Wait> never;
  std::ranges::copy_if(stuck, std::back_inserter(never),
                       [](const Wait& wait) { return !wait.promised; });
  const std::vector<std::string> lines = describe(never, table.dispatch);
  CHECK(lines == describe(dag::check_liveness(table, {}).starved, table.dispatch));
  REQUIRE(lines.size() == 4);
  CHECK(lines.front() ==
        "CTA 2 is at (head 0, kv 2, q 3) and waits for lock value 2 of dQ(head 0, q 3), which "
        "shows 0; no task ever brings that value");
  // CTA 3's comes from CTA 2, if that ever reduces.
  const auto third = std::ranges::find(stuck, Lane{3}, &Wait::lane);
  REQUIRE(third != stuck.end());
  CHECK(third->promised);
  CHECK(third->for_lane == Lane{2});
}

TEST_CASE("a planted rank hangs, and the wait names both sides") {
  Table table = square(2);
  std::swap(table.slots[0].rank, table.slots[2].rank);
  const Attention attention = attention_of(table.problem);
  const Backward run = backward_on_cpu(table, attention, {.timeout = kPatience, .threads = 2});
  CHECK(run.outcome == Outcome::finished);  // another order, but an order
  // Lane 0 waits at q 0 for lane 1, which waits at q 1 for lane 0.
  std::swap(table.slots[2], table.slots[3]);
  const Backward hung = backward_on_cpu(table, attention, {.timeout = kPatience, .threads = 2});
  CHECK(hung.outcome == Outcome::deadlock);
  const auto lines = describe(waits(table, hung), table.dispatch);
  REQUIRE(lines.size() == 2);
  CHECK(lines[0] ==
        "SM 0 is at (head 0, kv 0, q 0) and waits for lock value 1 of dQ(head 0, q 0), which shows "
        "0: (head 0, kv 1, q 0), rank 0, must reduce first, and that is on SM 1");
  CHECK(lines[1] ==
        "SM 1 is at (head 0, kv 1, q 1) and waits for lock value 1 of dQ(head 0, q 1), which shows "
        "0: (head 0, kv 0, q 1), rank 0, must reduce first, and that is on SM 0");
}

TEST_CASE("two tasks of one rank do not race: one of them hangs") {
  Table table = square(3);
  table.slots[3].rank = 0;  // as slot 0
  const Attention attention = attention_of(table.problem);
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    const Backward run =
        backward_on_cpu(table, attention, {.timeout = kPatience, .perturb = seed, .threads = 3});
    CHECK(run.outcome == Outcome::deadlock);
    const std::vector<Wait> stuck = waits(table, run);
    const auto passed = std::find_if(stuck.begin(), stuck.end(),
                                     [](const Wait& wait) { return wait.rank < wait.value; });
    REQUIRE(passed != stuck.end());
    CHECK_FALSE(passed->promised);
  }
}

TEST_CASE("too few resident lanes for a shift: the lane waited for is not launched") {
  const Problem problem = make_problem(make_mask("full"), {4, 4}, {}, 1, 4);
  const Table table = schedules::build(schedules::select("shift"), problem);
  const Attention attention = attention_of(problem);
  const Backward run = backward_on_cpu(table, attention, {.residency = 3, .timeout = kPatience});
  CHECK(run.outcome == Outcome::deadlock);
  const std::vector<Wait> stuck = waits(table, run);
  CHECK(std::count_if(stuck.begin(), stuck.end(),
                      [](const Wait& wait) { return !wait.launched; }) == 1);
}

TEST_CASE("a wait longer than the timeout stops the run") {
  // One thread, and lane 1's first task waits for lane 0's last, ten tasks later.
  Table table = square(5, {.q = 64, .kv = 64});
  std::reverse(table.slots.begin() + 5, table.slots.begin() + 10);
  const Attention attention = attention_of(table.problem, 128);
  const Backward run =
      backward_on_cpu(table, attention, {.timeout = std::chrono::milliseconds(1), .threads = 1});
  CHECK(run.outcome == Outcome::timeout);
  CHECK(outcome_when_stopped(table, run, 5) == Outcome::timeout);
  const std::vector<Wait> late = waits(table, run);
  CHECK(std::any_of(late.begin(), late.end(), [](const Wait& wait) {
    return wait.lane == Lane{1} && wait.task.q == QTile{4} && wait.for_lane == Lane{0};
  }));
  CHECK(backward_on_cpu(table, attention, {.timeout = kPatience, .threads = 1}).outcome ==
        Outcome::finished);
}

/// A run of square(2) that was stopped: both lanes have computed their first task and wait.
Backward stopped_at_once() {
  Backward run;
  run.lane_sms = {Sm{0}, Sm{1}};
  run.next_slots = {0, 2};
  run.lock_values = {0, 0};
  run.times.resize(4);
  run.times[0] = {0, 5, -1, -1};
  run.times[2] = {0, 7, -1, -1};
  return run;
}

TEST_CASE("a task whose turn has come waits for nobody but itself, and that is no deadlock") {
  const Table table = square(2);
  const Backward run = stopped_at_once();
  CHECK(outcome_when_stopped(table, run, 2) == Outcome::timeout);
  const std::vector<Wait> waiting = waits(table, run);
  REQUIRE(waiting.size() == 2);
  CHECK(waiting[0].promised);
  CHECK(waiting[0].for_lane == Lane{0});
  CHECK(waiting[1].promised);
  CHECK(waiting[1].for_lane == Lane{0});
  CHECK(waiting[1].for_rank == 0);
}

TEST_CASE("who waits is told by what has not come, whatever the clock showed: 0 is a time") {
  const Problem problem = make_problem(make_mask("full"), {1, 1}, {}, 2, 2,
                                       {.heads_kv = 1, .span = 1, .combine = Combine::ordered});
  const Table table = schedules::build(schedules::select("ascending"), problem);
  REQUIRE(table.lanes() == 2);
  const std::int32_t second = table.dkv_rank(table.slots[0].task) == 1 ? 0 : 1;
  for (const std::int64_t now : {0, 1, 9}) {
    CAPTURE(now);
    // Lane `second` has reduced its only task and waits for its turn at dK and dV, which is the
    // other lane's; that one computes still.
    Backward run;
    run.lane_sms = {Sm{0}, Sm{1}};
    run.next_slots = {0, 1};
    run.lock_values = {0, 0};
    run.dkv_lock_values = {0};
    run.times.assign(2, {.compute_start = 0});
    run.chain_times.resize(2);
    run.times[at(second)] = {now, now, now, now};
    run.lock_values[at(second)] = 1;
    run.chain_times[problem.chain_place(table.slots[second].task)].ready = now;
    const std::vector<Wait> waiting = waits(table, run);
    REQUIRE(waiting.size() == 1);
    CHECK(waiting[0].lane == Lane{second});
    CHECK(waiting[0].dkv);
    CHECK(waiting[0].rank == 1);
    CHECK(waiting[0].value == 0);
    // The other lane has computed, and waits for nobody but itself.
    run.times[at(1 - second)] = {now, now, -1, -1};
    CHECK(waits(table, run).size() == 2);
  }
}

TEST_CASE("a hand-over counts where it was waited for, from the reduction's end to the turn") {
  const Table table = square(2);
  Backward run;
  run.witness = {0, 2, 1, 3};
  // q 0: rank 0 ends at 10; rank 1 had computed at 9 and has its turn at 13.
  run.times = {{0, 5, 6, 10}, {10, 15, 16, 20}, {0, 9, 13, 14}, {14, 20, 29, 30}};
  // q 1: rank 0 ends at 20, as rank 1 has computed: nothing was waited for.
  CHECK(median_hand_over_ns(table, run) == 3);
  run.times[3].compute_end = 19;
  CHECK(median_hand_over_ns(table, run) == 9);  // the upper of 3 and 9
  run.times[2].compute_end = 10;
  run.times[3].compute_end = 20;
  CHECK(median_hand_over_ns(table, run) == 0);
}

TEST_CASE("lanes are launched in order, the next one when an SM is free") {
  const Problem problem = make_problem(make_mask("full"), {6, 6}, {}, 1, 6);
  const Table table = schedules::build(schedules::select("lpt-ascending"), problem);
  const Backward run = backward_on_cpu(table, attention_of(problem),
                                       {.residency = 1, .timeout = kPatience, .threads = 4});
  REQUIRE(run.outcome == Outcome::finished);
  std::int64_t before = 0;
  for (const TaskTimes& times : run.times) {
    CHECK(times.compute_start >= before);
    before = times.reduce_end;
  }
}

}  // namespace
}  // namespace stagger::gpu
