#include "sim/load.hpp"

#include "schedules/schedule.hpp"
#include "sim/memory.hpp"
#include "sim/timeline.hpp"
#include "tests/support/catch.hpp"

#include <algorithm>
#include <vector>

namespace stagger::sim {
namespace {

TEST_CASE("hand-overs take longer the more SMs reduce: worked by hand") {
  // Four heads of one Q tile and two KV tiles on eight SMs, c = 5 and r = 1: four rank 0 have their
  // turn at 5, when the others are ready. Of eight reductions at most, one to four are recent as
  // these come one after the other, so that of a congestion of 20 their hand-overs have 2, 5, 7 and
  // 10: the last begins at 5 + 1 + 10, and its own reduction ends at 17.
  const Problem problem = make_problem(make_mask("full"), {1, 2}, {}, 4, 8);
  const Table table = schedules::build(schedules::select("spt"), problem);
  const Memory memory{.l2 = 1, .rate = 1, .tile = {}, .congestion = 20};
  Timing timing;
  timing.memory = memory;
  CHECK(play_memory(table, timing).makespan == 17);
  std::vector<Ticks> starts = simulate_with_memory(table, timing).reduce_start;
  std::ranges::sort(starts);
  CHECK(starts == std::vector<Ticks>{5, 5, 5, 5, 8, 11, 13, 16});
}

TEST_CASE("a reduction counts for a cycle, and SMs at most") {
  Timing timing{.compute = 7, .reduce = 3};
  timing.memory = Memory{.congestion = 1'000};
  const Problem problem = make_problem(make_mask("full"), {1, 1}, {}, 1, 4);
  const auto delays = [&](const Timing& of) {
    Load load(of, problem);
    std::vector<Ticks> found = {load.held_up()};
    for (const Ticks turn : {0, 0, 9, 10, 10, 10, 19, 20, 40}) {
      load.add(turn);
      found.push_back(load.held_up());
    }
    return found;
  };
  // What came ten ticks ago counts no more.
  CHECK(delays(timing) == std::vector<Ticks>{0, 250, 500, 750, 500, 750, 1'000, 1'000, 500, 250});
  timing.model = Model::overlap;  // seven ticks
  CHECK(delays(timing) == std::vector<Ticks>{0, 250, 500, 250, 500, 750, 1'000, 250, 500, 250});
  timing.residency = 2;
  CHECK(delays(timing) ==
        std::vector<Ticks>{0, 500, 1'000, 500, 1'000, 1'000, 1'000, 500, 1'000, 500});
  timing.memory->congestion = 0;
  CHECK(delays(timing) == std::vector<Ticks>(10, 0));
}

TEST_CASE("in a dip compute phases are longer the more than half of the SMs reduce") {
  // Of 100 ticks of a dip 20 are lost: what takes 80 at a steady clock takes a quarter longer, 9
  // ticks by 2, if all four SMs reduce, and by half of that if three do.
  Timing timing{.compute = 7, .reduce = 3};
  timing.memory = Memory{.dip = 100, .dip_loss = 20};
  const Problem problem = make_problem(make_mask("full"), {1, 1}, {}, 1, 4);
  Load load(timing, problem);
  std::vector<Ticks> found = {load.slowed_by(9)};
  for (const Ticks turn : {0, 0, 9, 9, 9, 19}) {
    load.add(turn);
    found.push_back(load.slowed_by(9));
  }
  CHECK(found == std::vector<Ticks>{0, 0, 0, 1, 2, 2, 0});
  CHECK(load.dips(99));
  CHECK_FALSE(load.dips(100));
  CHECK(load.held_up() == 0);
  // The longest phase of the longest dip does not overflow, and is at most twice as long.
  timing.memory->dip = Ticks{1} << 60;
  timing.memory->dip_loss = timing.memory->dip / 2;
  timing.residency = 1;
  Load long_dip(timing, problem);
  long_dip.add(0);
  CHECK(long_dip.slowed_by(Ticks{1} << 58) == Ticks{1} << 58);
  timing.memory->dip_loss = 0;
  CHECK_FALSE(Load(timing, problem).dips(0));
}

TEST_CASE("a dip slows what begins in it: worked by hand") {
  // One SM, so that it is all of them, and one chain of six tasks, c = 10 and r = 2 one after the
  // other: the first phase begins before anything is reduced. Of 40 ticks 8 are lost: what begins
  // before is a quarter longer, and what begins at 12, 26 and 40 or later is 12, 12 and 10.
  const Problem problem = make_problem(make_mask("full"), {6, 1}, {}, 1, 1);
  const Table table = schedules::build(schedules::select("spt"), problem);
  Timing timing{.compute = 10, .reduce = 2};
  timing.memory = Memory{.l2 = 1, .rate = 1, .dip = 40, .dip_loss = 8};
  const Simulation simulation = simulate_with_memory(table, timing);
  CHECK(simulation.compute_start == std::vector<Ticks>{0, 12, 26, 40, 52, 64});
  CHECK(simulation.compute_longer == std::vector<Ticks>{0, 2, 2, 0, 0, 0});
  CHECK(simulation.makespan == 76);
  // What is drawn of it is as it was played.
  const Timeline drawn = timeline(table, timing, simulation, {});
  const auto computes = std::ranges::count_if(drawn.intervals, [](const Interval& interval) {
    return interval.phase == Phase::compute && interval.end - interval.start == 12;
  });
  CHECK(computes == 2);
}

}  // namespace
}  // namespace stagger::sim
