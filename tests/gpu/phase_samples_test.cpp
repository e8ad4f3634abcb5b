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
          if (selection.schedule->unsupported(problem, selection.parameters)) continue;
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
    }
  }
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
