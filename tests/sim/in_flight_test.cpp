#include "sim/in_flight.hpp"

#include "sim/gantt_svg.hpp"
#include "sim/gantt_text.hpp"
#include "sim/gantt_tikz.hpp"
#include "sim/simulate.hpp"
#include "sim/timeline.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace stagger::sim {
namespace {

/// dQ tiles whose first reduction has begun and whose last one has not ended, by every tick.
std::vector<std::int64_t> by_tick(const Table& table, const Timing& timing,
                                  const Simulation& simulation) {
  std::vector<std::int64_t> tiles(at(simulation.makespan));
  std::map<std::pair<std::int32_t, std::int32_t>, std::pair<Ticks, Ticks>> seen;
  for (std::size_t slot = 0; slot < table.slots.size(); ++slot) {
    const Task& task = table.slots[slot].task;
    const Ticks start = simulation.reduce_start[slot];
    auto& [begin, end] = seen.try_emplace({task.head.value, task.q.value}, start, 0).first->second;
    begin = std::min(begin, start);
    end = std::max(end, start + timing.reduce);
  }
  for (const auto& [tile, span] : seen) {
    for (Ticks tick = span.first; tick < span.second; ++tick)
      ++tiles[at(tick)];
  }
  return tiles;
}

TEST_CASE("tiles in flight are those begun and not finished, tick by tick") {
  test::Random random(test::seed(91));
  std::int64_t ticks = 0;
  for (int round = 0; round < 300; ++round) {
    const Problem problem = test::any_problem(random, 5);
    const Timing timing{.model = random.chance(2) ? Model::chain : Model::overlap,
                        .compute = random.between(0, 6),
                        .reduce = random.between(1, 4),
                        .latency = random.between(0, 2),
                        .launch = random.between(0, 3)};
    const Table table = test::random_live_table(random, problem, Dispatch::static_);
    const Simulation simulation = simulate(table, timing);
    REQUIRE(simulation.complete);
    const std::vector<std::int64_t> wanted = by_tick(table, timing, simulation);
    Timeline drawn = timeline(table, timing, simulation);
    const std::vector<InFlight> steps = dq_in_flight(drawn);
    std::size_t step = 0;
    for (Ticks tick = 0; tick < std::ssize(wanted); ++tick, ++ticks) {
      while (step < steps.size() && steps[step].time <= tick)
        ++step;
      REQUIRE((step == 0 ? 0 : steps[step - 1].tiles) == wanted[at(tick)]);
    }
    if (!steps.empty()) REQUIRE(steps.back().tiles == 0);

    // A column of the curve has the most of its ticks.
    drawn.dq = DqMemory{.tile_bytes = 10, .l2_bytes = 25};
    const InFlightCurve curve = in_flight_curve(drawn, 7);
    REQUIRE(curve.empty() == steps.empty());
    if (curve.empty()) continue;
    std::vector<std::int64_t> columns(7);
    for (Ticks tick = 0; tick < drawn.makespan; ++tick) {
      // A tick touches the columns from that of its start to that which holds its last instant.
      const Ticks first = tick * 7 / drawn.makespan;
      const Ticks last = ((tick + 1) * 7 - 1) / drawn.makespan;
      for (Ticks column = first; column <= last; ++column)
        columns[at(column)] = std::max(columns[at(column)], 10 * wanted[at(tick)]);
    }
    REQUIRE(curve.columns == columns);
    REQUIRE(curve.most == *std::max_element(columns.begin(), columns.end()));
    REQUIRE(curve.shows_l2() == (curve.most >= 25));
  }
  CHECK(ticks > 3'000);
}

/// One SM, two heads of one tile, then a pause: 1 tile, 2 tiles, 0.
Timeline two_tiles() {
  Timeline timeline{.sms = 2, .heads = 2, .makespan = 8};
  timeline.dq = DqMemory{.tile_bytes = 32'768, .l2_bytes = 40'000};
  timeline.intervals = {
      {.sm = Sm{0}, .task = {Head{0}, {}, {}}, .phase = Phase::reduce, .start = 0, .end = 2},
      {.sm = Sm{0}, .task = {Head{0}, {}, {}}, .phase = Phase::reduce, .start = 4, .end = 6},
      {.sm = Sm{1}, .task = {Head{1}, {}, {}}, .phase = Phase::reduce, .start = 2, .end = 6}};
  return timeline;
}

TEST_CASE("the curve by hand: in columns, in words, and where nothing is known of bytes") {
  Timeline timeline = two_tiles();
  CHECK(dq_in_flight(timeline) == std::vector<InFlight>{{0, 1}, {2, 2}, {6, 0}});
  const InFlightCurve curve = in_flight_curve(timeline, 4);
  CHECK(curve.columns == std::vector<std::int64_t>{32'768, 65'536, 65'536, 0});
  CHECK(curve.words == "dQ in flight: at most 65.5 kB; L2 40.0 kB");
  CHECK(curve.shows_l2());
  timeline.dq->l2_bytes = 65'536;
  CHECK(in_flight_curve(timeline, 4).shows_l2());
  timeline.dq->l2_bytes = 65'537;
  CHECK_FALSE(in_flight_curve(timeline, 4).shows_l2());
  timeline.dq.reset();
  CHECK(in_flight_curve(timeline, 4).empty());
  CHECK_FALSE(in_flight_curve(timeline, 4).shows_l2());
  CHECK(in_flight_curve({.makespan = 5, .dq = DqMemory{1, 1}}, 4).empty());
  // Reductions without a length are in no column, and none is drawn.
  timeline = two_tiles();
  timeline.intervals = {
      {.sm = Sm{0}, .task = {Head{0}, {}, {}}, .phase = Phase::reduce, .start = 8, .end = 8}};
  CHECK(in_flight_curve(timeline, 4).empty());
  CHECK(gantt_text(timeline).find("dQ") == std::string::npos);
}

TEST_CASE("every picture has the curve under its rows, over the same times") {
  const Timeline timeline = two_tiles();
  const std::string text = gantt_text(timeline, {.width = 38});
  CHECK(text.find("\ndQ    ▄▄▄▄▄▄████████████\n") != std::string::npos);
  CHECK(text.find("dQ in flight: at most") != std::string::npos);
  const std::string ascii = gantt_text(timeline, {.width = 38, .unicode = false});
  CHECK(ascii.find("\ndQ    444444" + std::string(12, '8') + "\n") != std::string::npos);
  const std::string svg = gantt_svg(timeline);
  CHECK(svg.find(">dQ in flight: at most 65.5 kB; L2 40.0 kB<") != std::string::npos);
  CHECK(svg.find(">L2<") != std::string::npos);
  const std::string tikz = gantt_tikz(timeline);
  CHECK(tikz.find("{dQ in flight: at most 65.5 kB; L2 40.0 kB}") != std::string::npos);
  CHECK(tikz.find("node[right] {L2}") != std::string::npos);
  // The curve is as high as its scale where most is in flight, and as low as its foot where
  // nothing.
  const auto heights = [&] {
    const std::size_t begin = tikz.find("\\fill[black!35]");
    REQUIRE(begin != std::string::npos);
    const std::string path = tikz.substr(begin, tikz.find("cycle", begin) - begin);
    std::vector<double> found;
    for (std::size_t comma = path.find(','); comma != std::string::npos;
         comma = path.find(',', comma + 1))
      found.push_back(std::stod(path.substr(comma + 1)));
    return found;
  }();
  const auto [low, high] = std::minmax_element(heights.begin(), heights.end());
  CHECK(*low == heights.front());
  CHECK(*high - *low == Approx(1.2).margin(0.002));
  Timeline without = timeline;
  without.dq.reset();
  for (const std::string& picture : {gantt_text(without), gantt_svg(without), gantt_tikz(without)})
    CHECK(picture.find("dQ in flight") == std::string::npos);
}

}  // namespace
}  // namespace stagger::sim
