#include "schedules/search/evaluate.hpp"

#include "dag/slot_path.hpp"
#include "schedules/schedule.hpp"
#include "sim/memory.hpp"
#include "sim/simulate.hpp"
#include "tests/sim/cost.hpp"
#include "tests/sim/drawn.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/naive.hpp"
#include "tests/support/random.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace stagger::search {
namespace {

TEST_CASE("lane by lane is what event by event is, deadlocks included") {
  test::Random random(61);
  std::int64_t hanging = 0;
  for (int round = 0; round < 4'000; ++round) {
    const Problem problem = test::any_problem(random, 7);
    const Table table = random.chance(3)
                            ? test::random_table(random, problem, Dispatch::static_)
                            : test::random_live_table(random, problem, Dispatch::static_);
    const Timing timing = test::random_timing(random, problem);
    CAPTURE(round, timing.residency, timing.model == Model::overlap,
            timing.release == Release::delayed);
    const sim::Simulation simulation = sim::simulate(table, timing);
    const std::optional<Ticks> makespan = makespan_of(table, timing);
    REQUIRE(makespan.has_value() == simulation.complete);
    if (makespan) REQUIRE(*makespan == simulation.makespan);
    hanging += makespan ? 0 : 1;
  }
  CHECK(hanging > 300);
}

TEST_CASE("with a memory too, deadlocks and parts added in order included") {
  test::Random random(test::seed(163));
  int in_order = 0;
  int beyond = 0;
  int far_beyond = 0;
  int at_most = 0;
  int lucky = 0;
  int ends = 0;
  for (int round = 0; round < 1'500; ++round) {
    Table table = random.chance(3) ? test::drawn_table(random, 4, [] { return false; })
                                   : sim::drawn_live_table(random, 4);
    table.dispatch = Dispatch::static_;
    Timing timing =
        test::with_random_combination(random, test::random_timing(random, table.problem));
    timing.memory = Memory{.l2 = random.between(1, 300),
                           .rate = random.between(1, 60),
                           .tile = {.q = random.between(0, 60),
                                    .dq = random.between(0, 60),
                                    .kv = random.between(0, 60),
                                    .gradient = random.between(0, 60)},
                           .add_permille = random.chance(2) ? random.between(0, 3'000) : 0,
                           .latency = random.chance(2) ? random.between(0, 9) : 0,
                           .congestion = random.chance(2) ? random.between(0, 40) : 0,
                           .spread = random.chance(2) ? random.between(0, 9) : 0,
                           .dip = 90,
                           .dip_loss = random.chance(2) ? random.between(0, 45) : 0,
                           .draw = random.between(0, kMemoryDraws - 1)};
    const std::optional<Ticks> makespan = makespan_of(table, timing);
    CAPTURE(round);
    REQUIRE(makespan.has_value() == sim::simulate(table, timing).complete);
    if (!makespan) continue;
    const sim::MemoryPlay play = sim::play_memory(table, timing);
    REQUIRE(*makespan == play.makespan);
    const double over = static_cast<double>(play.in_flight) / double(timing.memory->l2) - 1;
    const double longer = 0.02 * double(play.makespan) * std::clamp(over, 0.0, 4.0);
    const std::optional<Rating> own = rating_by_own_draw(table, timing);
    REQUIRE(own.has_value());
    REQUIRE(own->makespan == play.makespan);
    REQUIRE(double(own->cost) <= double(play.makespan) + longer + 1e-6);
    REQUIRE(double(own->cost) > double(play.makespan) + longer - 1);
    const std::optional<Rating> rating = rating_of(table, timing);
    REQUIRE(rating.has_value());
    REQUIRE(rating->makespan == play.makespan);
    REQUIRE(rating->cost == sim::cost_by_plays(table, timing));
    lucky += rating->cost > own->cost ? 1 : 0;
    in_order += table.problem.combine == Combine::ordered ? 1 : 0;
    beyond += own->cost > own->makespan ? 1 : 0;
    far_beyond += over > 1 && over < 4 && longer >= 1 ? 1 : 0;
    at_most += over > 5 && longer >= 1 ? 1 : 0;
    ++ends;
  }
  CHECK(beyond > 100);
  CHECK(far_beyond > 30);
  CHECK(at_most > 30);
  CHECK(lucky > 20);
  CHECK(in_order > 50);
  CHECK(ends > 500);
}

TEST_CASE("a table is rated by other draws of chance, the fewer the larger it is") {
  const Memory chance{.l2 = 1, .rate = 1, .spread = 1};
  CHECK(rated_draws({.l2 = 1, .rate = 1}, 100) == 0);
  CHECK(rated_draws(chance, 0) == 16);
  CHECK(rated_draws(chance, 15'625) == 16);
  CHECK(rated_draws(chance, 15'626) == 15);
  CHECK(rated_draws(chance, 125'000) == 2);
  CHECK(rated_draws(chance, 125'001) == 1);
  CHECK(rated_draws(chance, 1'000'000'000) == 1);
  // The last draw is followed by the first, and sums of the longest makespans are exact.
  Timing timing;
  timing.memory = chance;
  timing.memory->draw = 62;
  std::vector<std::int64_t> draws;
  const Ticks longest = Ticks{1} << 60;
  CHECK(mean_cost(timing, 50'000, 1, [&](const Timing& other) {
          draws.push_back(other.memory->draw);
          return longest - draws.back();
        }) == longest - 14);
  CHECK(draws == std::vector<std::int64_t>{63, 0, 1, 2, 3});
}

TEST_CASE("rounds are what pushing one chain at a time gives") {
  test::Random random(62);
  std::int64_t impossible = 0;
  std::int64_t in_turn = 0;
  for (int round = 0; round < 3'000; ++round) {
    Problem problem = test::any_problem(random, 4);
    if (random.chance(2)) problem = test::with_random_groups(random, std::move(problem), 3);
    Table table = random.chance(4) ? test::random_table(random, problem, Dispatch::static_)
                                   : test::random_live_table(random, problem, Dispatch::static_);
    test::perhaps_shuffle_dkv_ranks(random, table);
    CAPTURE(round);
    const std::optional<std::int64_t> rounds = rounds_of(table);
    REQUIRE(rounds == test::naive_rounds(table));
    REQUIRE(rounds == dag::slot_path(table));
    impossible += rounds ? 0 : 1;
    if (!rounds) continue;
    in_turn += problem.combine == Combine::ordered ? 1 : 0;
    // The chain model is never slower: SMs may run out of step there.
    REQUIRE(sim::simulate(table, {}).makespan <= 6 * *rounds);
    REQUIRE(sim::simulate(table, {.reduce_kv = 2}).makespan <= 8 * *rounds);
  }
  CHECK(impossible > 100);
  CHECK(in_turn > 100);
}

TEST_CASE("head blocks need the fewest rounds there can be, for every n and m") {
  for (std::int64_t n = 1; n <= 64; ++n) {
    for (std::int64_t m = 1; m <= 9; ++m) {
      CAPTURE(n, m);
      const Problem problem = make_problem(make_mask("causal"), {n, n}, {}, m, n);
      const Table table = schedules::build(schedules::select("head-blocks"), problem);
      const std::int64_t least = std::max(n, (m * (n + 1) + 1) / 2);
      REQUIRE(rounds_of(table) == least);
      REQUIRE(sim::simulate(table, {.compute = 5, .reduce = 2}).makespan == 7 * least);
    }
  }
}

}  // namespace
}  // namespace stagger::search
