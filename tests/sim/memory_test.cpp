#include "sim/memory.hpp"

#include "schedules/schedule.hpp"
#include "schedules/search/evaluate.hpp"
#include "sim/spread.hpp"
#include "sim/tile_cache.hpp"
#include "sim/timeline.hpp"
#include "tests/sim/drawn.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

namespace stagger::sim {
namespace {

constexpr TileBytes kBytes{.q = 30, .dq = 20, .kv = 50, .gradient = 70};

MemoryPlay play(const Table& table, Timing timing, const Memory& memory) {
  timing.memory = memory;
  return play_memory(table, timing);
}

Table shift_table(std::int64_t n, std::int64_t heads) {
  return schedules::build(schedules::select("shift"),
                          make_problem(make_mask("full"), {n, n}, {}, heads, n));
}

TEST_CASE("with room for everything each byte is read once, and only dK and dV are written") {
  const Table table = shift_table(4, 3);
  const MemoryPlay played = play(table, {}, {.l2 = 1'000'000, .rate = 1'000'000, .tile = kBytes});
  CHECK(played.read == 3 * (4 * 30 + 4 * 50));
  CHECK(played.written == 3 * 4 * 70);
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
  // One KV tile, Q tiles 0 and 1, c = 5, r = 1, 10 bytes a tick and channel. K and V (50) and Q 0
  // (30) are there at 5, when Q 0 is computed and Q 1 (30) is asked for, which is there at 8. dQ 0
  // (20) is stored at 10; Q 1 is computed from 11 on, dQ 1 (20) is stored at 16, and dK and dV (70)
  // go by from 17 on.
  // Of two tiles the standard's generator draws places 1, 0, 1, 1: K and V and Q 0 were both asked
  // for at 0, and so for Q 1 the one drawn first leaves, Q 0; dQ 0 fits. Of three it draws 0, 2, 2,
  // 0: for dQ 1 K and V leave, asked for before dQ 0. Channels are drawn from seed 1, which begins
  // 0.4170, 0.9972, 0.7203, 0.9326: four of them, so that dK and dV are written until 24.
  const Problem problem = test::tiles_problem({"ff"}, 1, 1);
  const Table table = schedules::build(schedules::select("spt"), problem);
  const MemoryPlay played =
      play(table, {}, {.l2 = 100, .rate = 10 * kMemoryChannels, .tile = kBytes});
  CHECK(played.read == 50 + 30 + 30);
  CHECK(played.written == 70);
  CHECK(played.hit == 0);
  CHECK(played.in_flight == 20);
  CHECK(played.last_reduction == 17);
  CHECK(played.makespan == 24);
}

TEST_CASE("dK and dV of an SM's last chain keep it from the next if memory is busy: by hand") {
  // Two chains of one task on one SM, c = 5, r = 1 and an epilogue of 2, in which an idle memory
  // takes dK and dV: those of the second chain, done at 16, are moved until 23.
  Timing timing;
  timing.epilogue = 2;
  Memory memory{.l2 = 1'000, .rate = 10 * kMemoryChannels, .tile = {.gradient = 70}};
  const Problem two = test::tiles_problem({"f"}, 2, 1);
  for (const char* schedule : {"shift", "spt"}) {  // in one lane, and in a lane each
    const Table table = schedules::build(schedules::select(schedule), two);
    const MemoryPlay played = play(table, timing, memory);
    CHECK(played.last_reduction == 14);
    CHECK(played.makespan == 23);
    CHECK(played.written == 140);
  }
  // On 33 SMs some channel is asked for dK and dV of two, and who comes last waits for the other's.
  // Launches are so long that nobody waits for K, V and Q.
  timing.launch = 1'000;
  const Problem many = test::tiles_problem({"f"}, 66, 33);
  const Table table = schedules::build(schedules::select("shift"), many);
  for (const Model model : {Model::chain, Model::overlap}) {
    timing.model = model;
    const Ticks alone = simulate(table, timing).last_reduction;
    memory.tile.gradient = 70;
    const Ticks waited = play(table, timing, memory).last_reduction - alone;
    CHECK(waited >= 7);
    CHECK(waited % 7 == 0);
    memory.tile.gradient = 0;
    CHECK(play(table, timing, memory).last_reduction == alone);
  }
}

TEST_CASE("what chance adds to hand-overs halves as it should: worked by hand") {
  // splitmix64 of 1 and 2, as its authors' program gives it: 0x910a2dec…, 0x975835de…: draws of
  // 0.5666 and 0.5912 of 2^32. Of the first halving 2 - 2 * 0.5666 is done, two thirds of it count.
  const Spread spread(3'000'000);
  CHECK(spread.delay(0, 1) == 2'000'000LL * ((1 << 17) - (0x910a2dec >> 15)) / (1 << 16));
  CHECK(spread.delay(0, 2) == 2'000'000LL * ((1 << 17) - (0x975835de >> 15)) / (1 << 16));
  CHECK(Spread(0).delay(7, 1) == 0);
  // Places and ranks are told apart, and the longest spread does not overflow.
  CHECK(spread.delay(1, 0) != spread.delay(0, 1));
  // Of the sequence after it splitmix64 of 2^58 + 1 counts: 0xf5cd259c….
  CHECK(Spread(3'000'000, 1).delay(0, 1) ==
        2'000'000LL * ((1 << 17) - (0xf5cd259c >> 15)) / (1 << 16));
  for (std::int32_t rank = 0; rank < 1'000; ++rank)
    REQUIRE(Spread(Ticks{1} << 55).delay(3, rank) < Ticks{22} << 55);
}

TEST_CASE("of what chance adds the mean is the spread, and the quartiles are one spread apart") {
  constexpr Ticks kSpread = 30'000;
  const Spread spread(kSpread);
  std::vector<Ticks> delays;
  for (std::int64_t place = 0; place < 300; ++place) {
    for (std::int32_t rank = 1; rank < 300; ++rank)
      delays.push_back(spread.delay(place, rank));
  }
  std::ranges::sort(delays);
  const auto off = [&](Ticks found, Ticks wanted) { return std::abs(found - wanted); };
  const std::int64_t count = std::ssize(delays);
  CHECK(off(std::reduce(delays.begin(), delays.end(), Ticks{0}) / count, kSpread) < kSpread / 50);
  CHECK(off(delays[at(count / 4)], kSpread / 3) < kSpread / 50);
  CHECK(off(delays[at(count / 2)], kSpread * 2 / 3) < kSpread / 50);
  CHECK(off(delays[at(count * 3 / 4)], kSpread * 4 / 3) < kSpread / 50);
  // Twice the spread is more than chance adds to seven of eight: Timing::planned_hand_over().
  CHECK(off(delays[at(count * 7 / 8)], 2 * kSpread) < kSpread / 25);
  CHECK(delays.front() >= 0);
}

TEST_CASE("what is not in L2 is there a latency after it was moved: worked by hand") {
  // One chain of one task: K and V (50) and Q (30) are moved at 10 a tick and channel, the longer
  // until 5, and are there at 5 + 7. dQ is stored, for which nobody waits, and dK and dV (70) are
  // written from the reduction's end on, seven ticks long.
  const Problem problem = test::tiles_problem({"f"}, 1, 1);
  const Table table = schedules::build(schedules::select("spt"), problem);
  Memory memory{.l2 = 1'000, .rate = 10 * kMemoryChannels, .tile = kBytes, .latency = 7};
  const MemoryPlay one = play(table, {}, memory);
  CHECK(one.last_reduction == 5 + 7 + 5 + 1);
  CHECK(one.makespan == 5 + 7 + 5 + 1 + 7);
  // What is on its way already is waited for alike, what is there is not.
  const Problem two = make_problem(make_mask("full"), {1, 2}, {}, 1, 2);
  memory.tile = {.q = 40, .dq = 0, .kv = 0, .gradient = 0};
  const Table shared = schedules::build(schedules::select("spt"), two);
  const MemoryPlay played = play(shared, {}, memory);
  CHECK(played.hit == 40);
  CHECK(played.makespan == 4 + 7 + simulate(shared, {}).makespan);
}

TEST_CASE("an addition keeps a channel and does not wait for it: worked by hand") {
  // Two chains of one task on one SM, c = 5 and r = 1. The first stores its dQ at 5, which takes
  // nothing; the second adds to it at 11: 20 bytes, twice of which are moved until 15.
  const Problem problem = test::tiles_problem({"f", "f"}, 1, 1);
  const Table table = schedules::build(schedules::select("spt"), problem);
  Memory memory{
      .l2 = 1'000, .rate = 10 * kMemoryChannels, .tile = {.dq = 20}, .add_permille = 2'000};
  const MemoryPlay played = play(table, {}, memory);
  CHECK(played.last_reduction == 12);
  CHECK(played.makespan == 11 + 4);
  CHECK(played.written == 0);
  memory.add_permille = 99;  // a byte, rounded down
  memory.rate = kMemoryChannels;
  CHECK(play(table, {}, memory).makespan == 12);
  memory.add_permille = 100;
  CHECK(play(table, {}, memory).makespan == 11 + 2);
  // What is asked for after it waits: on one SM the Q tile of the next chain, if in its channel.
  memory = {.l2 = 10'000, .rate = kMemoryChannels, .tile = {.q = 1, .dq = 1}};
  const Problem many = make_problem(make_mask("full"), {8, 8}, {}, 4, 1);
  const Table longer = schedules::build(schedules::select("spt"), many);
  const Ticks before = play(longer, {}, memory).last_reduction;
  memory.add_permille = kMostAddPermille;
  CHECK(play(longer, {}, memory).last_reduction > before);
  // dK and dV that are combined in order are added to, too, by the second of a KV tile's parts.
  Problem shared = make_problem(make_mask("full"), {1, 1}, {}, 2, 1);
  shared.heads_kv = 1;
  shared.combine = Combine::ordered;
  memory = {.l2 = 10'000, .rate = kMemoryChannels, .tile = {.gradient = 1}, .add_permille = 50'000};
  Timing timing;
  timing.reduce_kv = 2;
  const Table parts = schedules::build(schedules::select("spt"), shared);
  // c = 5, r = 1, 2 for a part: stored at 6, added at 14, 50 ticks long.
  CHECK(play(parts, timing, memory).makespan == 6 + 8 + 50);
}

TEST_CASE("what one channel is asked for comes one after the other") {
  // On 33 SMs with a chain each of a head of their own, 33 Q tiles are asked for at 0: some of the
  // channels have two or more, and some of the SMs wait for as many times 4 ticks.
  const Problem problem = make_problem(make_mask("full"), {1, 1}, {}, 33, 33);
  const Table table = schedules::build(schedules::select("spt"), problem);
  const TileBytes tile{.q = 40, .dq = 0, .kv = 0, .gradient = 0};
  const MemoryPlay played =
      play(table, {}, {.l2 = 10'000, .rate = 10 * kMemoryChannels, .tile = tile});
  std::mt19937 dice(1);
  std::vector<Ticks> asked(at(kMemoryChannels), 0);
  // K and V are drawn a channel for too, and take no time.
  for (int head = 0; head < 33; ++head) {
    dice();
    ++asked[at(std::uint64_t{dice()} * kMemoryChannels >> 32U)];
  }
  CHECK(played.makespan == 4 * std::ranges::max(asked) + simulate(table, {}).makespan);
  CHECK(std::ranges::max(asked) > 1);
}

TEST_CASE("an SM that finds what another has brought catches up with it") {
  // Two SMs with a chain each of one KV tile: of heads that share K and V, and of one head's Q
  // tile. Both ask at 0 for 40 bytes at 10 a tick; SM 1 waits for what is on its way already.
  const Problem problem = make_problem(make_mask("full"), {1, 2}, {}, 1, 2);
  const Table table = schedules::build(schedules::select("spt"), problem);
  const TileBytes tile{.q = 40, .dq = 0, .kv = 0, .gradient = 0};
  const MemoryPlay played =
      play(table, {}, {.l2 = 1'000, .rate = 10 * kMemoryChannels, .tile = tile});
  CHECK(played.read == 40);
  CHECK(played.hit == 40);
  CHECK(played.makespan == 4 + simulate(table, {}).makespan);
}

TEST_CASE("of four tiles drawn the one touched first leaves, of equals the one drawn first") {
  // std::mt19937 draws 3499211612, 581869302, 3890346734, 3586334585: of three tiles those at
  // places 2, 0, 2 and 2, and not the one at place 1.
  for (const auto& [touched, leaves] : {std::pair{std::array<Ticks, 3>{30, 10, 20}, 2},
                                        std::pair{std::array<Ticks, 3>{20, 10, 30}, 0},
                                        std::pair{std::array<Ticks, 3>{20, 10, 20}, 2}}) {
    TileCache cache(3, 4);
    std::vector<std::int32_t> left;
    for (std::int32_t tile = 0; tile < 4; ++tile) {
      if (tile < 3) cache[tile].touched = touched[static_cast<std::size_t>(tile)];
      cache.take(
          tile, [](std::int32_t) { return 1; }, [&](std::int32_t gone) { left.push_back(gone); });
    }
    CAPTURE(touched, left);
    CHECK(left == std::vector<std::int32_t>{leaves});
    CHECK_FALSE(cache[leaves].held());
    CHECK(cache[1].held());
  }
}

TEST_CASE("of a hundred tiles that are as old the one drawn first leaves") {
  // The same four numbers draw places 81, 13, 90 and 83.
  TileCache cache(100, 101);
  std::vector<std::int32_t> left;
  for (std::int32_t tile = 0; tile <= 100; ++tile) {
    cache.take(
        tile, [](std::int32_t) { return 1; }, [&](std::int32_t gone) { left.push_back(gone); });
  }
  CHECK(left == std::vector<std::int32_t>{81});
}

TEST_CASE("a tile that is touched again and again stays where others pass through") {
  // It leaves only where all four draws are it: once in 10^8 of those that pass.
  TileCache cache(100, 10'000);
  std::int64_t misses = 0;
  const auto touch = [&](std::int32_t tile, Ticks time) {
    cache[tile].touched = time;
    if (cache[tile].held()) return;
    misses += tile == 0 ? 1 : 0;
    cache.take(
        tile, [](std::int32_t) { return 1; }, [](std::int32_t) {});
  };
  for (std::int32_t tile = 1; tile < 10'000; ++tile) {
    touch(0, 2 * tile);
    touch(tile, 2 * tile + 1);
  }
  CHECK(misses == 1);
}

TEST_CASE("of tiles touched in turn as many stay as chance leaves") {
  // Where no time tells them apart, of W tiles in a cache of C each round throws out (1 - h) W,
  // each of C alike: a tile is still there with h = (1 - 1 / C)^((1 - h) W), where the least
  // recently used one would never be.
  constexpr int kHeld = 1'000;
  for (const int touched : {1'100, 1'500, 2'000, 4'000}) {
    TileCache cache(kHeld, touched);
    std::int64_t hits = 0;
    constexpr int kRounds = 60;
    for (int round = -20; round < kRounds; ++round) {
      for (std::int32_t tile = 0; tile < touched; ++tile) {
        if (!cache[tile].held()) {
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

TEST_CASE("tiles of no bytes change nothing, and a slow memory is all there is") {
  const Table table = shift_table(6, 4);
  const Ticks phases = simulate(table, {}).makespan;
  CHECK(play(table, {}, {.l2 = 1, .rate = 1, .tile = {}}).makespan == phases);
  const MemoryPlay slow = play(table, {}, {.l2 = 1, .rate = 1, .tile = kBytes});
  CHECK(slow.makespan >= slow.read + slow.written);
  CHECK(slow.makespan <= kMemoryChannels * (slow.read + slow.written) + phases);
}

struct Remembering {
  Table table;
  Timing timing;
};

/// A random table, with a random memory.
Remembering table_with_memory(test::Random& random, int tiles, Dispatch dispatch) {
  const Problem problem = test::any_problem(random, tiles);
  Remembering made{.table = test::random_live_table(random, problem, dispatch),
                   .timing = test::random_timing(random, problem)};
  made.timing.memory = Memory{.l2 = random.between(1, 3'000),
                              .rate = random.between(1, 60),
                              .tile = {.q = random.between(0, 60),
                                       .dq = random.between(0, 60),
                                       .kv = random.between(0, 60),
                                       .gradient = random.between(0, 60)},
                              .add_permille = random.chance(2) ? random.between(0, 3'000) : 0,
                              .latency = random.chance(2) ? random.between(0, 9) : 0,
                              .congestion = random.chance(2) ? random.between(0, 40) : 0,
                              .spread = random.chance(2) ? random.between(0, 9) : 0,
                              .dip = random.chance(3) ? 0 : random.between(0, 300),
                              .draw = random.between(0, kMemoryDraws - 1)};
  if (random.chance(2)) {
    const Ticks dip = made.timing.memory->dip;
    made.timing.memory->dip_loss = random.between(dip / 4, dip / 2);
  }
  return made;
}

/// When each phase of each task runs. Of SMs that are free at once either may take the next lane.
std::vector<std::tuple<Task, Phase, Ticks, Ticks>> phases_of(const Table& table,
                                                             const Timing& timing,
                                                             const Simulation& simulation) {
  std::vector<std::tuple<Task, Phase, Ticks, Ticks>> phases;
  for (const Interval& each : timeline(table, timing, simulation).intervals)
    phases.emplace_back(each.task, each.phase, each.start, each.end);
  std::ranges::sort(phases);
  return phases;
}

TEST_CASE("with tiles of no bytes a table is played as the simulator plays it") {
  test::Random random(72);
  std::int64_t in_order = 0;
  std::int64_t combined = 0;
  for (int round = 0; round < 6'000; ++round) {
    const Dispatch dispatch = random.chance(2) ? Dispatch::static_ : Dispatch::in_order;
    auto [table, timing] = table_with_memory(random, 7, dispatch);
    if (random.chance(6)) table = drawn_live_table(random, 5);
    timing = test::with_random_combination(random, timing);
    timing.reduce += random.chance(3) ? 20 : 0;
    timing.memory->tile = {};
    timing.memory->latency = timing.memory->congestion = timing.memory->spread = 0;
    timing.memory->dip_loss = 0;
    const Simulation simulation = simulate(table, timing);
    if (!simulation.complete) continue;
    CAPTURE(round);
    const MemoryPlay played = play_memory(table, timing);
    REQUIRE(played.makespan == simulation.makespan);
    REQUIRE(played.last_reduction == simulation.last_reduction);
    const Simulation with = simulate_with_memory(table, timing);
    REQUIRE(with.reduce_start == simulation.reduce_start);
    REQUIRE(with.reduce_kv_start == simulation.reduce_kv_start);
    REQUIRE(phases_of(table, timing, with) == phases_of(table, timing, simulation));
    in_order += dispatch == Dispatch::in_order ? 1 : 0;
    combined += with.reduce_kv_start.empty() ? 0 : 1;
  }
  CHECK(in_order > 500);
  CHECK(combined > 100);
}

TEST_CASE("with a memory phases last as long and reductions begin no earlier") {
  test::Random random(73);
  std::int64_t waited = 0;
  std::int64_t slowed = 0;
  for (int round = 0; round < 1'000; ++round) {
    auto [table, timing] = table_with_memory(random, 6, Dispatch::static_);
    timing.residency = 0;
    const Simulation without = simulate(table, timing);
    if (!without.complete) continue;
    const Simulation with = simulate_with_memory(table, timing);
    const MemoryPlay played = play_memory(table, timing);
    CAPTURE(round);
    REQUIRE(with.complete);
    REQUIRE(with.makespan == played.makespan);
    REQUIRE(with.last_reduction == played.last_reduction);
    for (std::size_t slot = 0; slot < table.slots.size(); ++slot)
      REQUIRE(with.reduce_start[slot] >= without.reduce_start[slot]);
    const auto lasts = [&, &table = table, &timing = timing](const Simulation& simulation,
                                                             Phase phase) {
      Ticks sum = 0;
      for (const Interval& each : timeline(table, timing, simulation).intervals)
        sum += each.phase == phase ? each.end - each.start : 0;
      return sum;
    };
    for (const Phase phase : {Phase::launch, Phase::reduce, Phase::epilogue})
      REQUIRE(lasts(with, phase) == lasts(without, phase));
    Ticks longer = 0;
    for (const Ticks ticks : with.compute_longer)
      longer += ticks;
    slowed += longer > 0 ? 1 : 0;
    REQUIRE(lasts(with, Phase::compute) == lasts(without, Phase::compute) + longer);
    waited += lasts(with, Phase::wait) > lasts(without, Phase::wait) ? 1 : 0;
    Ticks last = 0;
    for (const Interval& each : timeline(table, timing, with).intervals)
      last = std::max(last, each.phase == Phase::reduce ? each.end : 0);
    if (timing.reduce > 0 && with.reduce_kv_start.empty()) REQUIRE(last == with.last_reduction);
  }
  CHECK(waited > 300);
  CHECK(slowed > 30);
}

TEST_CASE("the cache of tiles is what a row of them is, and the search's makespan the same") {
  test::Random random(71);
  std::int64_t longer = 0;
  std::int64_t combined = 0;
  for (int round = 0; round < 4'000; ++round) {
    auto [table, timing] = table_with_memory(random, 7, Dispatch::static_);
    if (random.chance(3)) table = drawn_live_table(random, 5);
    timing = test::with_random_combination(random, timing);
    timing.latency *= random.chance(20) ? 1'000'000 : 1;
    CAPTURE(round, timing.memory->l2, timing.memory->rate);
    const Simulation simulation = simulate(table, timing);
    REQUIRE(search::makespan_of(table, timing).has_value() == simulation.complete);
    if (!simulation.complete) continue;
    const MemoryPlay played = play_memory(table, timing);
    REQUIRE(played.makespan == search::makespan_of(table, timing));
    REQUIRE(played.makespan >= played.last_reduction);
    REQUIRE(played.makespan * timing.memory->rate >= played.read + played.written);
    REQUIRE(played.hit + played.read <= played.touched);
    if (timing.residency == 0) REQUIRE(played.makespan >= simulation.makespan);
    longer += played.makespan > simulation.makespan ? 1 : 0;
    combined += simulation.reduce_kv_start.empty() ? 0 : 1;
  }
  CHECK(longer > 1'000);
  CHECK(combined > 100);
}

}  // namespace
}  // namespace stagger::sim
