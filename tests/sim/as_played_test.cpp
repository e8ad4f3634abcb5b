#include "core/as_played.hpp"

#include "core/error.hpp"
#include "core/limits.hpp"
#include "dag/bounds.hpp"
#include "dag/dag.hpp"
#include "dag/longest_path.hpp"
#include "dag/verify.hpp"
#include "schedules/schedule.hpp"
#include "schedules/search/evaluate.hpp"
#include "sim/memory.hpp"
#include "sim/simulate.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/naive.hpp"
#include "tests/support/random.hpp"

#include <vector>

namespace stagger::sim {
namespace {

/// A random timing of tasks that are 2 to 4 steps.
Timing timing_in_steps(test::Random& random, const Problem& problem) {
  Timing timing = test::with_random_combination(random, test::random_timing(random, problem));
  timing.steps = static_cast<std::int32_t>(random.between(2, 4));
  return timing;
}

TEST_CASE("a table in steps is played as tick by tick, by simulator, search and graph") {
  test::Random random(test::seed(301));
  int hung = 0;
  int finished = 0;
  for (int round = 0; round < 1'500; ++round) {
    const Table table = test::drawn_table(random, 3, [&] { return !random.chance(4); });
    const Timing timing = timing_in_steps(random, table.problem);
    CAPTURE(round, timing.steps, timing.model == Model::overlap, table.problem.span);
    const test::NaivePlay naive = test::naive_play(table, timing);
    const Simulation simulation = simulate(table, timing);
    REQUIRE(naive.makespan.has_value() == simulation.complete);
    REQUIRE(std::ranges::equal(naive.reduce_start, simulation.reduce_start));
    // Steps hang where whole tasks do.
    if (timing.release == Release::immediate) {
      const bool ok = dag::verify(table, timing).verdict == dag::Verdict::ok;
      REQUIRE(ok == simulation.complete);
    }
    if (table.dispatch == Dispatch::static_) {
      REQUIRE(search::makespan_of(table, timing) == naive.makespan);
    }
    if (!simulation.complete) {
      ++hung;
      continue;
    }
    ++finished;
    REQUIRE(simulation.makespan == *naive.makespan);
    const AsPlayed played(table, timing);
    const auto graph = dag::build(played.table(), played.timing());
    REQUIRE(graph.has_value());
    REQUIRE(dag::path_times(*graph)->length == *naive.makespan);
    REQUIRE(dag::lower_bounds(table.problem, timing, table.dispatch).best.ticks <= *naive.makespan);
  }
  CHECK(hung > 100);
  CHECK(finished > 800);
}

TEST_CASE("no table in steps beats the bounds") {
  test::Random random(test::seed(302));
  int met = 0;
  for (int problems = 0; problems < 40;) {
    const Problem problem = test::any_problem(random, 3);
    if (problem.tasks() == 0 || problem.tasks() > 5) continue;
    ++problems;
    Timing timing = test::random_timing(random, problem);
    timing.release = Release::immediate;
    timing.steps = static_cast<std::int32_t>(random.between(2, 3));
    const Ticks optimum = test::naive_optimum(problem, timing);
    const Ticks bound = dag::lower_bounds(problem, timing, Dispatch::static_).best.ticks;
    CAPTURE(problems, timing.steps);
    REQUIRE(bound <= optimum);
    met += bound == optimum ? 1 : 0;
  }
  CHECK(met > 15);
}

TEST_CASE("steps of a task are tasks of a smaller Q tile, one after the other") {
  test::Random random(test::seed(303));
  for (int round = 0; round < 200; ++round) {
    const std::int64_t steps = random.between(2, 4);
    const std::int64_t kv = random.between(1, 4);
    const std::int64_t q = random.between(1, 4);
    const auto problem_of = [&](std::int64_t tile_q) {
      return make_problem(make_mask("full"), {.q = q * steps, .kv = kv}, {.q = tile_q, .kv = 1}, 2,
                          3);
    };
    const Table table = test::random_live_table(random, problem_of(steps), Dispatch::static_);
    Table small{.name = table.name, .problem = problem_of(1)};
    for (Lane lane{0}; lane.value < table.lanes(); ++lane) {
      for (const Slot& slot : table.lane(lane)) {
        for (std::int64_t step = 0; step < steps; ++step) {
          Slot part = slot;
          part.task.q.value = static_cast<std::int32_t>(slot.task.q.value * steps + step);
          small.slots.push_back(part);
        }
      }
      small.end_lane();
    }
    Memory memory{.l2 = random.between(1, 300),
                  .rate = random.between(1, 20),
                  .tile = {.q = 12, .dq = 24, .kv = 30, .gradient = 40},
                  .add_permille = random.between(0, 3'000),
                  .latency = random.between(0, 5),
                  .congestion = random.between(0, 40),
                  .spread = random.between(0, 9),
                  .dip = 90,
                  .dip_loss = random.between(0, 45)};
    Timing whole{.model = Model::overlap,
                 .compute = 60,
                 .reduce = 36,
                 .latency = 3,
                 .launch = 2,
                 .epilogue = 4,
                 .steps = static_cast<std::int32_t>(steps),
                 .memory = memory};
    Timing part = whole;
    part.steps = 1;
    part.compute /= steps;
    part.reduce /= steps;
    part.memory->tile.q /= steps;
    part.memory->tile.dq /= steps;
    CAPTURE(round, steps);
    const MemoryPlay played = play_memory(table, whole);
    const MemoryPlay expected = play_memory(small, part);
    REQUIRE(played.makespan == expected.makespan);
    REQUIRE(played.last_reduction == expected.last_reduction);
    REQUIRE(played.read == expected.read);
    REQUIRE(played.in_flight == expected.in_flight);
    REQUIRE(simulate_with_memory(table, whole).compute_start ==
            simulate_with_memory(small, part).compute_start);
    REQUIRE(search::rating_of(table, whole)->makespan == expected.makespan);
    REQUIRE(dag::lower_bounds(table.problem, whole, Dispatch::static_).best.ticks ==
            dag::lower_bounds(small.problem, part, Dispatch::static_).best.ticks);
  }
}

TEST_CASE("a KV tile that the sequence ends within computes as a partial one where that is said") {
  test::Random random(test::seed(306));
  int cut = 0;
  int longer = 0;
  for (int round = 0; round < 400; ++round) {
    const std::int64_t heads = random.between(1, 3);
    const TileShape shape{.q = random.between(1, 3), .kv = random.between(1, 3)};
    const Lengths lengths{.q = random.between(1, 7), .kv = random.between(1, 9)};
    const Problem problem = make_problem(make_mask(random.chance(2) ? "full" : "causal"), lengths,
                                         shape, heads, random.between(1, 4));
    if (problem.tasks() == 0) continue;
    const Dispatch dispatch = random.chance(2) ? Dispatch::static_ : Dispatch::in_order;
    const Table table = test::random_live_table(random, problem, dispatch);
    Timing timing = timing_in_steps(random, problem);
    timing.steps = static_cast<std::int32_t>(random.between(1, 2));
    timing.release = Release::immediate;
    timing.residency = 0;
    timing.compute_partial = timing.compute + random.between(0, 9);
    timing.cut_partial = true;
    CAPTURE(round, timing.steps, shape.kv, lengths.kv);
    // The same by tiles that are partial themselves.
    std::vector<std::string> rows;
    for (KvTile kv{0}; kv.value < problem.kv_tiles(); ++kv) {
      std::string& row = rows.emplace_back();
      for (QTile q{0}; q.value < problem.q_tiles(); ++q) {
        const TileKind kind = problem.common_grid().kind(kv, q);
        const bool ends = (kv.value + 1) * shape.kv > lengths.kv && kind != TileKind::empty;
        row += static_cast<char>(ends ? TileKind::partial : kind);
      }
    }
    Table other = table;
    other.problem = test::tiles_problem(rows, problem.heads, problem.sms);
    Timing plain = timing;
    plain.cut_partial = false;
    const Simulation simulation = simulate(table, timing);
    const test::NaivePlay naive = test::naive_play(table, timing);
    REQUIRE(naive.makespan.has_value() == simulation.complete);
    if (!simulation.complete) continue;  // more lanes than SMs
    REQUIRE(simulation.makespan == *naive.makespan);
    REQUIRE(std::ranges::equal(naive.reduce_start, simulation.reduce_start));
    REQUIRE(simulation.makespan == simulate(other, plain).makespan);
    if (dispatch == Dispatch::static_) {
      REQUIRE(search::makespan_of(table, timing) == simulation.makespan);
    }
    REQUIRE(dag::lower_bounds(problem, timing, dispatch).best.ticks ==
            dag::lower_bounds(other.problem, plain, dispatch).best.ticks);
    cut += lengths.kv % shape.kv != 0 ? 1 : 0;
    longer += simulation.makespan > simulate(table, plain).makespan ? 1 : 0;
  }
  CHECK(cut > 100);
  CHECK(longer > 50);
}

TEST_CASE("a table is copied only where what is played is another") {
  const auto problem_of = [](std::int64_t keys) {
    return make_problem(make_mask("full"), {4, keys}, {2, 2}, 1, 1);
  };
  const Timing cut{.compute = 3, .compute_partial = 4, .cut_partial = true};
  CHECK_FALSE(plays_itself(problem_of(3), cut));
  CHECK(plays_itself(problem_of(4), cut));
  CHECK(plays_itself(problem_of(3), {.compute = 3, .compute_partial = 4}));
  CHECK(plays_itself(problem_of(3), {.compute = 3, .compute_partial = 3, .cut_partial = true}));
  CHECK_FALSE(plays_itself(problem_of(4), {.steps = 2}));
  const Table table{.name = "t", .problem = problem_of(4)};
  CHECK(&AsPlayed(table, cut).table() == &table);
  CHECK(&AsPlayed(table, cut).timing() == &cut);
}

TEST_CASE("a step's part of a phase is rounded up") {
  const Timing step =
      as_played(Timing{.compute = 7,
                       .compute_partial = 8,
                       .reduce = 4,
                       .latency = 5,
                       .launch = 6,
                       .epilogue = 9,
                       .reduce_kv = 10,
                       .steps = 3,
                       .memory = Memory{.tile = {.q = 4, .dq = 3, .kv = 5, .gradient = 7}}});
  CHECK(step.compute == 3);
  CHECK(step.compute_partial == 3);
  CHECK(step.reduce == 2);
  CHECK(step.latency == 5);
  CHECK(step.launch == 6);
  CHECK(step.epilogue == 9);
  CHECK(step.reduce_kv == 10);
  CHECK(step.steps == 1);
  CHECK(step.memory->tile == TileBytes{.q = 2, .dq = 1, .kv = 5, .gradient = 7});
}

TEST_CASE("the slot model's rounds are of whole tasks") {
  const Problem problem = test::tiles_problem({"fff", "f.f", "f.."}, 2, 3);
  const auto rounds = [&](std::int32_t steps) {
    return dag::lower_bounds(problem, {.steps = steps}, Dispatch::static_).degree_rounds;
  };
  CHECK(rounds(1) == 3);
  CHECK(rounds(3) == 3);
}

TEST_CASE("so many steps are refused before memory is asked for") {
  const auto refused = [](const Problem& problem, std::int32_t steps) {
    try {
      check_timing({.steps = steps}, problem);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const Problem small = test::tiles_problem({"f"}, 1, 1);
  CHECK(refused(small, 0) == "steps must be 1 to 64");
  CHECK(refused(small, 65) == "steps must be 1 to 64");
  CHECK(refused(small, 64).empty());
  CHECK_THROWS_WITH(check_timing({.release = Release::delayed, .steps = 2}, small),
                    Catch::Contains("not known together"));
  const Problem wide = make_problem(make_mask("full"), {kMaxTiles / 64, 1}, {}, 1, 1);
  CHECK(refused(wide, 64).empty());
  const Problem wider = make_problem(make_mask("full"), {kMaxTiles / 64 + 1, 1}, {}, 1, 1);
  CHECK(refused(wider, 64).find("1048576 Q tiles") != std::string::npos);
  CHECK(refused(wider, 63).empty());
  // Each of the steps may wait as long.
  constexpr Ticks kLong = Ticks{1} << 58;
  CHECK_NOTHROW(check_timing({.latency = kLong, .steps = 3}, small));
  CHECK_THROWS_AS(check_timing({.latency = kLong, .steps = 4}, small), Error);
  // Half as many tasks as a table may have, and a chain.
  const Problem many = make_problem(make_mask("full"), {1 << 10, 1}, {}, 1 << 15, 1);
  CHECK(refused(many, 1).empty());
  CHECK(refused(many, 2).find("67108864 tasks and chains") != std::string::npos);
}

}  // namespace
}  // namespace stagger::sim
