#include "schedules/schedule.hpp"
#include "sim/chart.hpp"
#include "sim/critical_path.hpp"
#include "sim/gantt_svg.hpp"
#include "sim/gantt_text.hpp"
#include "sim/gantt_tikz.hpp"
#include "sim/timeline.hpp"
#include "sim/trace_json.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random.hpp"

#include <algorithm>
#include <sstream>

namespace stagger::sim {
namespace {

Timeline timeline_of(const char* schedule, const char* mask, std::int64_t n, std::int64_t heads,
                     const Timing& timing) {
  const Table table = schedules::build(schedules::select(schedule),
                                       make_problem(make_mask(mask), {n, n}, {}, heads, n));
  const Simulation simulation = simulate(table, timing);
  return timeline(table, timing, simulation, critical_path(table, timing, simulation));
}

/// Columns a terminal needs for a line: code points that are not ANSI codes.
std::int64_t columns_of(const std::string& line) {
  std::int64_t columns = 0;
  for (std::size_t at = 0; at < line.size(); ++at) {
    if (line[at] == '\033') {
      at = line.find('m', at);
    } else if ((static_cast<unsigned char>(line[at]) & 0xc0) != 0x80) {
      ++columns;
    }
  }
  return columns;
}

TEST_CASE("the paper's Figure 3 in ASCII") {
  const Timeline timeline = timeline_of("ascending", "full", 3, 1, {.compute = 3, .reduce = 1});
  CHECK(gantt_text(timeline, {.width = 46, .unicode = false}) ==
        "SM 0  0-----##1-----##2-----##\n"
        "SM 1  0-----..##1-----##2-----##\n"
        "SM 2  0-----....##1-----##2-----##\n"
        "      |   |   |   |   |   |   |   |\n"
        "      0   2   4   6   8   10  12  14\n"
        "makespan 14 ticks\n"
        "- = compute (even, odd heads; number: Q tile)\n"
        "# reduce; . wait\n");
}

TEST_CASE("no line is wider than the terminal, whatever is drawn") {
  test::Random random(30);
  for (int round = 0; round < 400; ++round) {
    const Problem problem = test::random_problem(random, 6);
    const Table table = test::random_live_table(
        random, problem, random.chance(2) ? Dispatch::static_ : Dispatch::in_order);
    Timing timing = test::random_timing(random, problem);
    if (random.chance(3)) timing.compute *= 1000;
    const Simulation simulation = simulate(table, timing);
    const Timeline drawn = timeline(table, timing, simulation);
    TextOptions options{.width = static_cast<int>(random.between(50, 140)),
                        .unicode = random.chance(2),
                        .color = random.chance(2),
                        .max_rows = static_cast<int>(random.between(0, 4))};
    std::istringstream lines(gantt_text(drawn, options));
    CAPTURE(round, options.width);
    for (std::string line; std::getline(lines, line);) {
      CAPTURE(line);
      REQUIRE(columns_of(line) <= options.width);
      const bool ascii =
          std::all_of(line.begin(), line.end(), [](char letter) { return letter >= 0; });
      REQUIRE((options.unicode || ascii));
    }
    // The other pictures are made of the same timeline without a fault.
    REQUIRE(gantt_svg(drawn).ends_with("</svg>\n"));
    REQUIRE(gantt_tikz(drawn).ends_with("\\end{document}\n"));
    REQUIRE(trace_json(drawn).ends_with("]}\n"));
  }
}

TEST_CASE("empty and huge timelines can be drawn") {
  Timeline timeline;
  CHECK_FALSE(gantt_text(timeline).empty());
  CHECK_FALSE(gantt_svg(timeline).empty());
  CHECK_FALSE(gantt_tikz(timeline).empty());
  CHECK_FALSE(trace_json(timeline).empty());
  timeline.sms = 2;
  timeline.heads = 1;
  timeline.makespan = Ticks{1} << 62;
  timeline.intervals = {
      {.sm = Sm{1}, .task = {}, .phase = Phase::compute, .start = 5, .end = timeline.makespan}};
  CHECK_FALSE(gantt_text(timeline).empty());
  CHECK_FALSE(gantt_svg(timeline).empty());
  CHECK_FALSE(gantt_tikz(timeline).empty());
}

TEST_CASE("titles from outside cannot break a picture") {
  Timeline timeline = timeline_of("shift", "full", 2, 1, {});
  timeline.title = "<script>&\"\\input{x}$%#_^~\x01";
  const std::string svg = gantt_svg(timeline);
  CHECK(svg.find("<script>") == std::string::npos);
  CHECK(svg.find("&lt;script&gt;&amp;&quot;") != std::string::npos);
  const std::string tex = gantt_tikz(timeline);
  CHECK(tex.find("\\input{x}") == std::string::npos);
  CHECK(tex.find("\\textbackslash{}input\\{x\\}\\$\\%\\#\\_") != std::string::npos);
}

TEST_CASE("a chart has a box per phase, until boxes are too narrow") {
  const Timeline timeline = timeline_of("descending", "causal", 8, 4, {});
  const Chart fine = chart_of(timeline, 0);
  CHECK(fine.boxes.size() == 2 * 144);
  CHECK_FALSE(fine.merged);
  CHECK_FALSE(fine.split_rows);
  const Chart coarse = chart_within(timeline, 0.001, 60);
  CHECK(coarse.boxes.size() <= 60);
  CHECK(coarse.merged);
  CHECK(
      chart_of(timeline_of("descending", "causal", 8, 4, {.model = Model::overlap}), 0).split_rows);
}

TEST_CASE("the axis has round times") {
  CHECK(axis_of(14, 10) == std::vector<Ticks>{0, 2, 4, 6, 8, 10, 12, 14});
  CHECK(axis_of(0, 10) == std::vector<Ticks>{0});
  CHECK(axis_of(118, 10) == std::vector<Ticks>{0, 20, 40, 60, 80, 100});
  CHECK(axis_of(Ticks{1} << 62, 10).size() <= 11);
  CHECK(grouped(1234567) == "1,234,567");
  CHECK(grouped(100) == "100");
}

TEST_CASE("trace events of a thread never overlap, and times in ns are exact") {
  Timeline timeline = timeline_of("spt", "causal", 4, 2, {.model = Model::overlap, .latency = 2});
  const std::string trace = trace_json(timeline);
  CHECK(trace.find("\"name\":\"SM 003\"") != std::string::npos);
  CHECK(trace.find("one tick is shown as one microsecond") != std::string::npos);
  timeline.clock = "ns";
  timeline.intervals = {{.sm = Sm{0},
                         .task = {},
                         .phase = Phase::reduce,
                         .start = 1234567,
                         .end = 2000000,
                         .critical = true}};
  const std::string measured = trace_json(timeline);
  CHECK(measured.find("\"ts\":1234.567,\"dur\":765.433") != std::string::npos);
  CHECK(measured.find("\"critical\":true") != std::string::npos);
}

}  // namespace
}  // namespace stagger::sim
