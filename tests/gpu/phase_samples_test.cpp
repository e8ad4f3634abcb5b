#include "gpu/check/phase_samples.hpp"

#include "schedules/schedule.hpp"
#include "sim/simulate.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random.hpp"
#include "tests/support/toy_device.hpp"

#include <algorithm>

namespace stagger::gpu {
namespace {

/// Whether there are samples, and each is what the device takes.
void expect_all(const char* name, const std::vector<std::int64_t>& samples, std::int64_t truth) {
  CAPTURE(name, truth);
  REQUIRE_FALSE(samples.empty());
  CHECK(*std::min_element(samples.begin(), samples.end()) == truth);
  CHECK(*std::max_element(samples.begin(), samples.end()) == truth);
}

TEST_CASE("no sample has anything else in it, in both models and every schedule") {
  for (const Model model : {Model::chain, Model::overlap}) {
    for (const bool stamps_hand_over : {false, true}) {
      if (stamps_hand_over && model == Model::chain) continue;
      CAPTURE(model == Model::overlap, stamps_hand_over);
      const test::ToyDevice device{.timing = {.model = model,
                                              .compute = 900,
                                              .compute_partial = 1000,
                                              .reduce = 400,
                                              .latency = 70,
                                              .launch = 150,
                                              .epilogue = 60},
                                   .taking = 20,
                                   .stamps_hand_over = stamps_hand_over};
      test::Random random(90);
      std::vector<Table> tables;
      std::vector<Backward> ran;
      for (const char* mask : {"full", "causal"}) {
        for (const char* name : {"ascending", "descending", "spt", "lpt-ascending", "shift"}) {
          const Problem problem = make_problem(make_mask(mask), {24, 24}, {.q = 2, .kv = 4}, 4, 4);
          const schedules::Selection selection = schedules::select(name);
          if (schedules::why_unsupported(selection, problem)) continue;
          tables.push_back(schedules::build(selection, problem));
          if (!sim::simulate(tables.back(), device.timing).complete) tables.pop_back();
        }
      }
      REQUIRE(tables.size() >= 8);
      std::vector<TimedRun> runs;
      for (const Table& table : tables)
        ran.push_back(test::run_on_toy(device, table, Mode::deterministic, random));
      for (std::size_t index = 0; index < tables.size(); ++index)
        runs.push_back({&tables[index], &ran[index]});
      const PhaseSamples samples = phase_samples(runs, model);
      expect_all("compute", samples.compute, 900);
      expect_all("compute_partial", samples.compute_partial, 1000);
      expect_all("first", samples.first, 1050);
      expect_all("first_partial", samples.first_partial, 1150);
      expect_all("between", samples.between, 0);
      expect_all("taking", samples.taking, 20);
      expect_all("reduce", samples.reduce, 400);
      expect_all("latency", samples.latency, 70);
      expect_all("chain_gap", samples.chain_gap, 60);
      CHECK(samples.load.size() == samples.latency.size());
    }
  }
}

std::vector<std::int64_t> sorted(std::vector<std::int64_t> values) {
  std::sort(values.begin(), values.end());
  return values;
}

/// Two KV tiles on two SMs, two Q tiles each, by times that are given slot by slot.
struct ByHand {
  Table table = schedules::build(schedules::select("ascending"),
                                 make_problem(make_mask("full"), {2, 2}, {}, 1, 2));
  Backward run;

  ByHand() {
    run.lane_sms = {Sm{0}, Sm{1}};
    run.times = {{0, 10, 13, 20},    // kv 0, q 0: rank 0
                 {20, 31, 35, 40},   // kv 0, q 1: rank 0
                 {2, 14, 25, 33},    // kv 1, q 0: rank 1, 5 after the rank before
                 {33, 46, 49, 58}};  // kv 1, q 1: rank 1, whose turn had come
  }
  [[nodiscard]] PhaseSamples samples(Model model) const {
    const TimedRun timed{&table, &run};
    return phase_samples({&timed, 1}, model);
  }
};

TEST_CASE("four tasks by hand, in the chain model") {
  ByHand hand;
  const PhaseSamples samples = hand.samples(Model::chain);
  CHECK(sorted(samples.first) == std::vector<std::int64_t>{10, 12});
  CHECK(sorted(samples.compute) == std::vector<std::int64_t>{11, 13});
  CHECK(sorted(samples.reduce) == std::vector<std::int64_t>{5, 7, 8, 9});
  CHECK(samples.latency == std::vector<std::int64_t>{5});
  CHECK(samples.load == std::vector<std::int64_t>{500});  // one of two SMs: it was the first turn
  CHECK(samples.between == std::vector<std::int64_t>{0, 0});
  // Not of the task that waited, nor of one whose predecessor ended within two latencies before.
  CHECK(sorted(samples.taking) == std::vector<std::int64_t>{3, 4});
  CHECK(samples.chain_gap.empty());
}

TEST_CASE("a turn that came as the task was ready is no latency") {
  ByHand hand;
  // The rank before has ended at the moment at which this task is ready, and a moment later.
  hand.run.times[3] = {33, 40, 44, 50};
  CHECK(hand.samples(Model::chain).latency == std::vector<std::int64_t>{5});
  hand.run.times[3] = {33, 39, 44, 50};
  CHECK(sorted(hand.samples(Model::chain).latency) == std::vector<std::int64_t>{4, 5});
}

TEST_CASE("the load of a hand-over is the turns of a cycle, of the SMs at most") {
  ByHand hand;
  // Rank 1 of q 1 waits for rank 0, whose turn came at 35; a cycle is 11 + 7 ticks, and the turn at
  // 25 came within it, that at 13 did not.
  hand.run.times[3] = {33, 39, 44, 50};
  const PhaseSamples samples = hand.samples(Model::chain);
  CHECK(samples.latency == std::vector<std::int64_t>{5, 4});
  CHECK(samples.load == std::vector<std::int64_t>{500, 1'000});
}

TEST_CASE("a turn counts as taken without a wait from two latencies on") {
  ByHand hand;
  // The latency is 5; q 1's rank 0 ended at 40.
  hand.run.times[3] = {33, 49, 51, 60};
  CHECK(sorted(hand.samples(Model::chain).taking) == std::vector<std::int64_t>{3, 4});
  hand.run.times[3] = {33, 50, 52, 60};
  CHECK(sorted(hand.samples(Model::chain).taking) == std::vector<std::int64_t>{2, 3, 4});
}

TEST_CASE("a compute phase beside a dQ slot that was not free is left out of the overlap model") {
  ByHand hand;
  // In both chains the second compute phase follows the first hand-over; lane 0's ends long after
  // the slot is free, lane 1's just as it is.
  hand.run.times[0] = {0, 100, 103, 120};
  hand.run.times[1] = {100, 210, 212, 230};
  hand.run.times[2] = {0, 110, 125, 200};
  hand.run.times[3] = {110, 205, 235, 240};
  const PhaseSamples samples = hand.samples(Model::overlap);
  CHECK(samples.compute == std::vector<std::int64_t>{110});
  CHECK(sorted(samples.first) == std::vector<std::int64_t>{100, 110});
  CHECK(samples.between == std::vector<std::int64_t>{0, 0});
  // An eighth of the median compute phase, 110, is 13: from there on it counts.
  hand.run.times[3].compute_end = 212;
  CHECK(hand.samples(Model::overlap).compute == std::vector<std::int64_t>{110});
  hand.run.times[3].compute_end = 213;
  CHECK(sorted(hand.samples(Model::overlap).compute) == std::vector<std::int64_t>{103, 110});
}

TEST_CASE("a hand-over at the moment at which the dQ slot is free did not wait for it") {
  const Table table = schedules::build(schedules::select("ascending"),
                                       make_problem(make_mask("full"), {3, 1}, {}, 1, 1));
  Backward run;
  run.lane_sms = {Sm{0}};
  run.times = {{0, 10, 11, 20}, {10, 20, 21, 30}, {22, 40, 41, 50}};
  const TimedRun timed{&table, &run};
  CHECK(phase_samples({&timed, 1}, Model::overlap).between == std::vector<std::int64_t>{0, 2});
  run.times[0].reduce_end = 21;
  CHECK(phase_samples({&timed, 1}, Model::overlap).between == std::vector<std::int64_t>{0});
}

TEST_CASE("every task is sampled where nothing hides it") {
  const test::ToyDevice device{
      .timing = {.compute = 900, .reduce = 400, .latency = 70, .launch = 150, .epilogue = 60}};
  test::Random random(92);
  const Problem problem = make_problem(make_mask("causal"), {24, 24}, {.q = 2, .kv = 4}, 4, 4);
  const Table table = schedules::build(schedules::select("spt"), problem);
  const Backward run = test::run_on_toy(device, table, Mode::deterministic, random);
  const TimedRun timed{&table, &run};
  const PhaseSamples samples = phase_samples({&timed, 1}, Model::chain);
  const std::int64_t chains = 4 * 6;
  CHECK(std::ssize(samples.reduce) == problem.tasks());
  CHECK(std::ssize(samples.first) + std::ssize(samples.first_partial) == chains);
  CHECK(std::ssize(samples.compute) + std::ssize(samples.compute_partial) ==
        problem.tasks() - chains);
  CHECK(std::ssize(samples.between) == problem.tasks() - chains);
  CHECK(std::ssize(samples.chain_gap) == chains - problem.sms);
  CHECK_FALSE(samples.first_partial.empty());
  CHECK_FALSE(samples.compute_partial.empty());
}

TEST_CASE("runs without reductions give compute phases and gaps alone") {
  const test::ToyDevice device{.timing = {.compute = 900, .reduce = 400, .epilogue = 60}};
  test::Random random(91);
  const Problem problem = make_problem(make_mask("full"), {4, 4}, {}, 2, 4);
  const Table table = schedules::build(schedules::select("ascending"), problem);
  const Backward run = test::run_on_toy(device, table, Mode::no_reduce, random);
  const TimedRun timed{&table, &run};
  const PhaseSamples samples = phase_samples({&timed, 1}, Model::chain);
  expect_all("compute", samples.compute, 900);
  expect_all("between", samples.between, 0);
  expect_all("chain_gap", samples.chain_gap, 60);
  CHECK(samples.reduce.empty());
  CHECK(samples.latency.empty());
  CHECK(samples.taking.empty());
}

}  // namespace
}  // namespace stagger::gpu
