#include "sim/played.hpp"

#include "sim/bubbles.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/naive.hpp"
#include "tests/support/random.hpp"

#include <algorithm>
#include <array>

namespace stagger::sim {
namespace {

Table random_table(test::Random& random) {
  const Problem problem = test::any_problem(random, 4);
  const Dispatch dispatch = random.chance(2) ? Dispatch::static_ : Dispatch::in_order;
  return random.chance(3) ? test::random_table(random, problem, dispatch)
                          : test::random_live_table(random, problem, dispatch);
}

/// Phases follow one another, each as long as the timing says.
void check_phases(const PlayedSlot& slot, const Table& table, const Timing& timing) {
  REQUIRE(slot.launch.end - slot.launch.start == (slot.begins_chain ? timing.launch : 0));
  REQUIRE(slot.launch.end == slot.compute.start);
  REQUIRE(slot.compute.end - slot.compute.start ==
          timing.compute_of(table.problem, slot.slot.task));
  REQUIRE(slot.handed() >= slot.compute.end);
  if (!slot.reduced()) return;
  REQUIRE(slot.wait.end == slot.reduce.start);
  REQUIRE(slot.handed() <= slot.reduce.start);
  REQUIRE(slot.reduce.end - slot.reduce.start == timing.reduce);
  REQUIRE(slot.epilogue.end - slot.epilogue.start == (slot.ends_chain ? timing.epilogue : 0));
}

TEST_CASE("every phase starts when it starts in a play tick by tick, in hanging tables too") {
  test::Random random(22);
  int hanging = 0;
  std::int64_t waiting = 0;
  for (int round = 0; round < 3'000; ++round) {
    const Table table = random_table(random);
    const Timing timing = test::random_timing(random, table.problem);
    const Simulation simulation = simulate(table, timing);
    const Played played(table, timing, simulation);
    const test::NaivePlay naive = test::naive_play(table, timing);
    CAPTURE(round);
    hanging += simulation.complete ? 0 : 1;
    REQUIRE(simulation.reduce_start == naive.reduce_start);
    std::vector<Ticks> computes(table.slots.size(), -1);
    Ticks last_reduction = 0;
    for (Lane lane{0}; lane.value < table.lanes(); ++lane) {
      played.each_slot(lane, [&](const PlayedSlot& slot) {
        REQUIRE(slot.lane == lane);
        REQUIRE(slot.slot == table.slots[static_cast<std::size_t>(slot.index)]);
        check_phases(slot, table, timing);
        computes[static_cast<std::size_t>(slot.index)] = slot.compute.start;
        last_reduction = std::max(last_reduction, slot.reduced() ? slot.reduce.end : 0);
      });
    }
    REQUIRE(simulation.last_reduction == last_reduction);
    for (std::size_t slot = 0; slot < computes.size(); ++slot) {
      // A slot behind one that waits for ever is not played; in the overlap model it computes.
      if (computes[slot] >= 0 || simulation.complete) {
        REQUIRE(computes[slot] == naive.compute_start[slot]);
      }
    }
    waiting += std::count(simulation.reduce_start.begin(), simulation.reduce_start.end(), -1) -
               std::count(computes.begin(), computes.end(), -1);
  }
  CHECK(waiting > hanging);
  CHECK(hanging > 200);
}

/// An SM's time, tick by tick: what bubbles() sums.
struct SmTicks {
  std::vector<bool> busy;
  Ticks first_reduction = -1;
  Ticks ends = 0;  ///< its last phase, which may take no time

  void add(Span span) {
    ends = std::max(ends, span.end);
    for (Ticks tick = span.start; tick < span.end; ++tick)
      busy[static_cast<std::size_t>(tick)] = true;
  }
  [[nodiscard]] std::array<Ticks, 4> startup_order_tail_busy() const {
    std::array<Ticks, 4> sum{};
    for (Ticks tick = 0; tick < std::ssize(busy); ++tick) {
      const bool runs = busy[static_cast<std::size_t>(tick)];
      ++sum[runs ? 3 : tick >= ends ? 2 : tick >= first_reduction ? 1 : 0];
    }
    return sum;
  }
};

TEST_CASE("bubbles are the ticks in which nothing runs on an SM") {
  test::Random random(23);
  int overlapping_epilogues = 0;
  for (int round = 0; round < 3'000; ++round) {
    const Table table = random_table(random);
    Timing timing = test::random_timing(random, table.problem);
    if (random.chance(2)) timing.epilogue = random.between(1, 9);
    const Simulation simulation = simulate(table, timing);
    if (!simulation.complete) continue;
    const Played played(table, timing, simulation);
    std::vector<SmTicks> sms(
        static_cast<std::size_t>(played.sms()),
        {.busy = std::vector<bool>(static_cast<std::size_t>(simulation.makespan))});
    for (Lane lane{0}; lane.value < table.lanes(); ++lane) {
      played.each_slot(lane, [&](const PlayedSlot& slot) {
        SmTicks& sm = sms[static_cast<std::size_t>(slot.sm.value)];
        for (const Span span : {slot.launch, slot.compute, slot.reduce, slot.epilogue})
          sm.add(span);
        if (sm.first_reduction < 0) sm.first_reduction = slot.reduce.start;
        overlapping_epilogues += slot.epilogue.start < slot.reduce.start ? 1 : 0;
      });
    }
    std::array<Ticks, 4> sum{};
    for (const SmTicks& sm : sms) {
      const auto ticks = sm.startup_order_tail_busy();
      for (std::size_t kind = 0; kind < sum.size(); ++kind)
        sum[kind] += ticks[kind];
    }
    const Bubbles bubbles = sim::bubbles(table, timing, simulation);
    CAPTURE(round);
    REQUIRE(std::array{bubbles.startup, bubbles.order, bubbles.tail, bubbles.busy} == sum);
  }
  CHECK(overlapping_epilogues > 100);
}

TEST_CASE("SM time beyond 64 bits is refused") {
  Table table;
  table.problem = test::tiles_problem({"f"}, 1, 1'000);
  table.slots = {{}};
  for (int lane = 0; lane < 1'000; ++lane)
    table.end_lane();
  const Timing timing{.compute = Ticks{1} << 60, .reduce = 0};
  const Simulation simulation = simulate(table, timing);
  CHECK(simulation.makespan == Ticks{1} << 60);
  CHECK_THROWS_WITH(bubbles(table, timing, simulation), Catch::Contains("2^62"));
}

}  // namespace
}  // namespace stagger::sim
