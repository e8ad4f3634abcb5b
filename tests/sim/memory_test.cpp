#include "sim/memory.hpp"

#include "schedules/schedule.hpp"
#include "schedules/search/evaluate.hpp"
#include "sim/tile_cache.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random.hpp"

#include <cmath>
#include <cstdint>

namespace stagger::sim {
namespace {

constexpr TileBytes kBytes{.q = 30, .dq = 20, .kv = 50, .gradient = 70};

MemoryPlay play(const Table& table, Timing timing, const Memory& memory) {
  timing.memory = memory;
  return play_memory(table, timing, simulate(table, timing));
}

Table shift_table(std::int64_t n, std::int64_t heads) {
  return schedules::build(schedules::select("shift"),
                          make_problem(make_mask("full"), {n, n}, {}, heads, n));
}

TEST_CASE("with room for everything each byte is read once, and nothing is written") {
  const Table table = shift_table(4, 3);
  const MemoryPlay played = play(table, {}, {.l2 = 1'000'000, .rate = 1'000'000, .tile = kBytes});
  CHECK(played.read == 3 * (4 * 30 + 4 * 50));
  CHECK(played.written == 0);
  CHECK(played.touched == 3 * (16 * 30 + 16 * 20 + 4 * 50 + 4 * 70));
  // What is hit is neither read nor stored for the first time.
  CHECK(played.touched - played.hit == played.read + 3 * (4 * 20 + 4 * 70));
}

TEST_CASE("with no room every touch goes to memory, and only stores need not read first") {
  const Table table = shift_table(4, 3);
  const MemoryPlay played = play(table, {}, {.l2 = 1, .rate = 1'000'000, .tile = kBytes});
  CHECK(played.hit == 0);
  CHECK(played.read == 3 * (16 * 30 + 12 * 20 + 4 * 50));
  CHECK(played.written == 3 * (16 * 20 + 4 * 70));
}

TEST_CASE("one SM, two tiles that do not fit together: worked by hand") {
  // One KV tile, Q tiles 0 and 1, c = 5, r = 1. Round 0: K and V (50), Q 0 (30) and dQ 0, which is
  // stored (20); round 1: Q 1 (30), dQ 1 (20), dK and dV (70). The standard's
  // generator begins 0.8147, 0.1355, 0.9058, 0.8350 of 2^32. For Q 1 the third of three tiles
  // leaves, dQ 0, and the first of two, K and V; for the gradients the third of three, dQ 1, and
  // the second of two, Q 1.
  const Problem problem = test::tiles_problem({"ff"}, 1, 1);
  const Table table = schedules::build(schedules::select("spt"), problem);
  const MemoryPlay played = play(table, {}, {.l2 = 100, .rate = 10, .tile = kBytes});
  CHECK(played.read == 50 + 30 + 30);
  CHECK(played.written == 20 + 20);
  CHECK(played.in_flight == 20);
  // 12 ticks of phases, 15 of traffic: 15 + 12^3 / (5 * 15^2), by whole ticks.
  REQUIRE(played.windows.size() == 1);
  CHECK(played.makespan == 15 + 12 * 12 / 15 * 12 / 15 / 5);
}

TEST_CASE("of tiles touched in turn as many stay as chance leaves") {
  // Of W tiles in a cache of C each round throws out (1 - h) W, each of C alike: a tile is still
  // there with h = (1 - 1 / C)^((1 - h) W), where the least recently used one would never be.
  constexpr int kHeld = 1'000;
  for (const int touched : {1'100, 1'500, 2'000, 4'000}) {
    TileCache cache(kHeld, touched);
    std::int64_t hits = 0;
    constexpr int kRounds = 60;
    for (int round = -20; round < kRounds; ++round) {
      for (std::int32_t tile = 0; tile < touched; ++tile) {
        if (!cache.holds(tile)) {
          cache.take(
              tile, [](std::int32_t) { return 1; }, [](std::int32_t) {});
        } else if (round >= 0) {
          ++hits;
        }
      }
    }
    double law = 0;
    for (int step = 0; step < 200; ++step)
      law = std::pow(1 - 1.0 / kHeld, (1 - law) * touched);
    CAPTURE(touched, law);
    CHECK(std::abs(static_cast<double>(hits) / (kRounds * touched) - law) < 0.02);
  }
}

TEST_CASE("a memory that is fast enough changes nothing, and a slow one is all there is") {
  const Table table = shift_table(6, 4);
  const Ticks phases = simulate(table, {}).makespan;
  CHECK(play(table, {}, {.l2 = 1, .rate = 1'000'000'000, .tile = kBytes}).makespan == phases);
  const MemoryPlay slow = play(table, {}, {.l2 = 1, .rate = 1, .tile = kBytes});
  CHECK(slow.makespan >= slow.read + slow.written);
  CHECK(slow.makespan <= slow.read + slow.written + phases);
}

TEST_CASE("times with the memory rise with times by the phases") {
  const Table table = shift_table(8, 4);
  const MemoryPlay played = play(table, {}, {.l2 = 500, .rate = 20, .tile = kBytes});
  const Ticks phases = simulate(table, {}).makespan;
  REQUIRE(played.makespan > phases);
  CHECK(played.at(0) == 0);
  CHECK(played.at(phases) == played.makespan);
  for (Ticks time = 0; time < phases; ++time)
    REQUIRE(played.at(time + 1) > played.at(time));
}

TEST_CASE("the cache of tiles is what a row of them is, and the search's makespan the same") {
  test::Random random(71);
  std::int64_t stretched = 0;
  for (int round = 0; round < 4'000; ++round) {
    const Problem problem = test::random_problem(random, 7);
    const Table table = test::random_live_table(random, problem, Dispatch::static_);
    Timing timing = test::random_timing(random, problem);
    timing.residency = 0;
    timing.latency *= random.chance(20) ? 1'000'000 : 1;  // rounds without a touch
    timing.memory = Memory{.l2 = random.between(1, 3'000),
                           .rate = random.between(1, 60),
                           .tile = {.q = random.between(0, 60),
                                    .dq = random.between(0, 60),
                                    .kv = random.between(0, 60),
                                    .gradient = random.between(0, 60)}};
    CAPTURE(round, timing.memory->l2, timing.memory->rate);
    const Simulation simulation = simulate(table, timing);
    if (!simulation.complete) continue;
    const MemoryPlay played = play_memory(table, timing, simulation);
    REQUIRE(played.makespan == search::makespan_of(table, timing));
    REQUIRE(played.makespan >= simulation.makespan);
    REQUIRE(played.makespan * timing.memory->rate >= played.read + played.written);
    REQUIRE(played.last_reduction <= played.makespan);
    REQUIRE(played.hit + played.read <= played.touched);
    stretched += played.makespan > simulation.makespan ? 1 : 0;
  }
  CHECK(stretched > 1'000);
}

}  // namespace
}  // namespace stagger::sim
