// Critical paths, bubbles and memory of random tables, kept in tests/golden/sim-*.txt, step by
// step: that they are right is tested beside this, which of several right ones is chosen is here.

#include "sim/bubbles.hpp"
#include "sim/critical_path.hpp"
#include "sim/memory.hpp"
#include "sim/simulate.hpp"
#include "sim/timeline.hpp"
#include "sim/trace_json.hpp"
#include "tests/sim/drawn.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/golden.hpp"
#include "tests/support/random.hpp"

#include <sstream>
#include <string>
#include <utility>

namespace stagger::sim {
namespace {

struct Drawn {
  Table table;
  Timing timing;
};

Drawn drawn(test::Random& random, std::int64_t most) {
  Drawn drawn;
  drawn.table = random.chance(2) ? drawn_live_table(random, most)
                                 : test::drawn_table(random, most, [] { return true; });
  drawn.timing =
      test::with_random_combination(random, test::random_timing(random, drawn.table.problem));
  return drawn;
}

TEST_CASE("critical paths and bubbles are as kept, step by step") {
  test::Random random(131);
  std::ostringstream text;
  for (int round = 0; round < 120; ++round) {
    const auto [table, timing] = drawn(random, 4);
    const Simulation simulation = simulate(table, timing);
    text << round << ": " << simulation.complete << " " << simulation.makespan << " "
         << simulation.last_reduction << "\n";
    if (!simulation.complete) continue;
    const Bubbles spent = bubbles(table, timing, simulation);
    text << "  " << spent.startup << " " << spent.order << " " << spent.tail << " " << spent.busy
         << " last " << spent.last.startup << " " << spent.last.order << " " << spent.last.busy
         << "\n ";
    for (const CriticalStep& step : critical_path(table, timing, simulation).steps) {
      text << " " << step.sm.value << "/" << step.task.head.value << "." << step.task.kv.value
           << "." << step.task.q.value << phase_name(step.phase) << step.start << "-" << step.end;
    }
    text << "\n";
  }
  CHECK(test::golden_difference("sim-paths.txt", text.str()) == "");
}

TEST_CASE("what the memory makes of tables is as kept") {
  test::Random random(132);
  std::ostringstream text;
  for (int round = 0; round < 120; ++round) {
    auto [table, timing] = drawn(random, 5);
    timing.memory = Memory{.l2 = random.between(1, 60),
                           .rate = random.between(1, 9),
                           .tile = {.q = random.between(0, 9),
                                    .dq = random.between(0, 9),
                                    .kv = random.between(0, 9),
                                    .gradient = random.between(0, 9)}};
    if (!simulate(table, timing).complete) continue;
    const MemoryPlay play = play_memory(table, timing);
    text << round << ": " << play.makespan << " " << play.last_reduction << " touched "
         << play.touched << " hit " << play.hit << " read " << play.read << " written "
         << play.written << " flight " << play.in_flight << "\n";
  }
  CHECK(test::golden_difference("sim-memory.txt", text.str()) == "");
}

TEST_CASE("traces of random timelines are as kept, in ticks and in ns") {
  test::Random random(133);
  std::ostringstream text;
  for (int round = 0; round < 60; ++round) {
    const auto [table, timing] = drawn(random, 3);
    const Simulation simulation = simulate(table, timing);
    const CriticalPath path =
        simulation.complete ? critical_path(table, timing, simulation) : CriticalPath{};
    Timeline line = timeline(table, timing, simulation, path);
    if (round % 2 == 1) {
      line.clock = "ns";
      for (Interval& interval : line.intervals) {
        interval.start *= 137;
        interval.end *= 137;
      }
      line.makespan *= 137;
    }
    text << round << " " << line.sms << " " << line.heads << " " << line.makespan << " "
         << line.hangs << " " << line.intervals.size() << " " << test::text_digest(trace_json(line))
         << "\n";
  }
  CHECK(test::golden_difference("sim-traces.txt", text.str()) == "");
}

}  // namespace
}  // namespace stagger::sim
