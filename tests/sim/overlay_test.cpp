#include "sim/overlay.hpp"

#include "core/error.hpp"
#include "sim/chart.hpp"
#include "sim/gantt_svg.hpp"
#include "sim/gantt_text.hpp"
#include "sim/gantt_tikz.hpp"
#include "sim/perfetto_trace.hpp"
#include "sim/trace_json.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random.hpp"

#include <algorithm>
#include <sstream>

namespace stagger::sim {
namespace {

/// Two SMs, a compute phase and a reduction on each; the second SM waits for `wait`.
Timeline timeline_of(const char* device, Ticks unit, Ticks wait) {
  Timeline timeline{.clock = *device == '\0' ? "ticks" : "ns",
                    .device = device,
                    .sms = 2,
                    .heads = 1,
                    .makespan = 6 * unit + wait,
                    .title = "two"};
  for (const std::int32_t sm : {0, 1}) {
    const Ticks turn = 5 * unit + sm * wait;
    const auto add = [&](Phase phase, Ticks start, Ticks end) {
      timeline.intervals.push_back({.sm = Sm{sm},
                                    .task = {Head{0}, KvTile{sm}, QTile{sm}},
                                    .phase = phase,
                                    .start = start,
                                    .end = end});
    };
    add(Phase::compute, 0, 5 * unit);
    if (sm == 1) add(Phase::wait, 5 * unit, turn);
    add(Phase::reduce, turn, turn + unit);
  }
  return timeline;
}

TEST_CASE("an SM has a row for each timeline, the predicted one above, on one axis in ns") {
  Timeline predicted = timeline_of("", 1, 2);
  predicted.lower_bound = 6;
  const Timeline both = overlay({timeline_of("Toy 1", 100, 300), predicted}, 100);
  CHECK(both.clock == "ns");
  CHECK(both.sms == 2);
  CHECK(both.rows() == 4);
  CHECK(both.makespan == 900);
  CHECK(both.lower_bound == 600);
  REQUIRE(both.layers.size() == 2);
  CHECK(both.layers[0].name == "predicted");
  CHECK(both.layers[0].makespan == 800);
  CHECK(both.layers[1].name == "measured on Toy 1");
  CHECK(drawable(both));
  CHECK(both.intervals.size() == 10);
  CHECK(layer_lines(both, unit_of(both).name) ==
        std::vector<std::string>{"p predicted: 800 ns", "m measured on Toy 1: 900 ns (+12.5 %)"});
  CHECK(gantt_text(both, {.width = 44, .unicode = false}) ==
        "SM 0 p 0-------------------####\n"
        "     m 0-------------------####\n"
        "SM 1 p 1-------------------........####\n"
        "     m 1-------------------............####\n"
        "       |       |       |       |       |\n"
        "       0       200     400     600     800\n"
        "p predicted: 800 ns\n"
        "m measured on Toy 1: 900 ns (+12.5 %)\n"
        "lower bound 600; 25 ns a column\n"
        "- = compute (even, odd heads; number: Q\n"
        "tile); # reduce; . wait\n");
}

TEST_CASE("ticks beside ns need a tick's length; ticks beside ticks do not") {
  const Timeline predicted = timeline_of("", 1, 2);
  const Timeline measured = timeline_of("Toy 1", 100, 300);
  CHECK_THROWS_WITH(
      overlay({predicted, measured}, std::nullopt),
      Catch::Contains("the predicted timeline 'two' is in ticks") && Catch::Contains("--tick-ns"));
  const Timeline ticks = overlay({predicted, predicted, predicted}, std::nullopt);
  CHECK(ticks.clock == "ticks");
  CHECK(ticks.rows() == 6);
  CHECK(ticks.layers[0].tag == "1");
  CHECK(ticks.layers[2].tag == "3");
  Timeline endless = predicted;
  endless.makespan = Ticks{1} << 60;
  CHECK_THROWS_WITH(overlay({endless, measured}, 100), Catch::Contains("2^62 ns"));
  // At the limit, and a tick beyond.
  for (const std::int64_t tick_ns : {1, 3, 100}) {
    const Ticks last = (Ticks{1} << 62) / tick_ns;
    endless.makespan = last;
    CHECK(overlay({endless, measured}, tick_ns).makespan == last * tick_ns);
    endless.makespan = last + 1;
    CHECK_THROWS_WITH(overlay({endless, measured}, tick_ns), Catch::Contains("2^62 ns"));
    endless.makespan = predicted.makespan;
    endless.lower_bound = last;
    CHECK(overlay({endless, measured}, tick_ns).lower_bound == last * tick_ns);
    endless.lower_bound = last + 1;
    CHECK_THROWS_WITH(overlay({endless, measured}, tick_ns), Catch::Contains("2^62 ns"));
    endless.lower_bound = 0;
  }
  endless.makespan = predicted.makespan;
  endless.lower_bound = Ticks{1} << 60;
  CHECK_THROWS_WITH(overlay({endless, measured}, 100), Catch::Contains("2^62 ns"));
}

TEST_CASE("parts of a tick are brought to what they have in common, or to ns") {
  Timeline halves = timeline_of("", 1, 3);  // 9 halves of a tick
  halves.clock = "ticks/2";
  Timeline fifths = timeline_of("", 1, 0);
  fifths.clock = "ticks/5";
  const Timeline ticks = timeline_of("", 1, 1);
  const Timeline all = overlay({halves, fifths, ticks}, std::nullopt);
  CHECK(all.clock == "ticks/10");
  CHECK(all.layers[0].makespan == 45);
  CHECK(all.layers[1].makespan == 12);
  CHECK(all.layers[2].makespan == 70);
  CHECK(all.makespan == 70);
  CHECK(unit_of(all).text(all.makespan) == "7.0 ticks");
  for (const Interval& interval : all.intervals)
    REQUIRE(interval.end <= all.layers[at(interval.layer)].makespan);
  const Timeline measured = timeline_of("Toy 1", 100, 300);
  const Timeline in_ns = overlay({measured, halves}, 101);
  CHECK(in_ns.clock == "ns");
  CHECK(in_ns.layers[0].makespan == 455);  // 454.5, rounded up
  CHECK(in_ns.layers[1].makespan == 900);
  CHECK_THROWS_AS(overlay({measured, halves}, std::nullopt), Error);
  Timeline odd = ticks;
  odd.clock = "ticks/999999937";
  CHECK_THROWS_AS(overlay({halves, odd}, std::nullopt), Error);
}

TEST_CASE("every timeline's intervals are drawn in its own rows, whatever is overlaid") {
  test::Random random(95);
  for (int round = 0; round < 200; ++round) {
    std::vector<Timeline> timelines;
    std::size_t intervals = 0;
    for (std::int64_t count = random.between(1, 4); count > 0; --count) {
      timelines.push_back(timeline_of(random.chance(2) ? "" : "Toy 1", random.between(1, 50),
                                      random.between(1, 99)));
      timelines.back().sms += static_cast<std::int32_t>(random.between(0, 3));
      intervals += timelines.back().intervals.size();
    }
    const auto layers = static_cast<std::int32_t>(timelines.size());
    const Timeline all = overlay(timelines, random.between(1, 1000));
    CAPTURE(round, layers);
    REQUIRE(drawable(all));
    REQUIRE(all.intervals.size() == intervals);
    for (const Interval& interval : all.intervals) {
      REQUIRE(interval.layer < layers);
      REQUIRE(interval.end <= all.layers[static_cast<std::size_t>(interval.layer)].makespan);
      REQUIRE(interval.sm.value == interval.task.kv.value);
    }
    const int width = static_cast<int>(random.between(20, 120));
    std::istringstream lines(gantt_text(
        all,
        {.width = width, .unicode = false, .max_rows = static_cast<int>(random.between(0, 3))}));
    for (std::string line; std::getline(lines, line);) {
      CAPTURE(line);
      REQUIRE(std::ssize(line) <= width);
    }
    REQUIRE(gantt_svg(all).ends_with("</svg>\n"));
    REQUIRE(gantt_tikz(all).ends_with("\\end{document}\n"));
    REQUIRE(trace_json(all).ends_with("]}\n"));
  }
}

TEST_CASE("pictures name the timelines and the SMs of an overlay") {
  const Timeline both = overlay({timeline_of("", 1, 2), timeline_of("Toy <1>", 100, 300)}, 100);
  const std::string svg = gantt_svg(both);
  CHECK(svg.find("p predicted: 800 ns; m measured on Toy &lt;1&gt;: 900 ns (+12.5 %)") !=
        std::string::npos);
  CHECK(svg.find(">SM 1<") != std::string::npos);
  CHECK(svg.find(">SM 2<") == std::string::npos);
  const std::string tex = gantt_tikz(both);
  CHECK(tex.find("p predicted: 800 ns; m measured on Toy <1>: 900 ns (+12.5 \\%)") !=
        std::string::npos);
  CHECK(tex.find("{SM 1}") != std::string::npos);
  CHECK(tex.find("{SM 2}") == std::string::npos);
  const std::string trace = trace_json(both);
  CHECK(trace.find("\"SM 001 predicted\"") != std::string::npos);
  CHECK(trace.find("\"SM 001 measured on Toy <1>\"") != std::string::npos);
  CHECK(trace.find("SM 002") == std::string::npos);
}

TEST_CASE("timelines from one place are told apart by what their titles say") {
  const auto titled = [](const char* device, const char* title) {
    Timeline timeline = timeline_of(device, 1, 2);
    timeline.title = title;
    return timeline;
  };
  const auto names = [](const Timeline& all) {
    std::string names;
    for (const TimelineLayer& layer : all.layers)
      names += (names.empty() ? "" : "; ") + layer.name;
    return names;
  };
  const Timeline two = overlay({titled("", "shift: full"), titled("", "spt: full")}, std::nullopt);
  CHECK(two.title == "shift, spt: full");
  CHECK(names(two) == "predicted, shift; predicted, spt");
  CHECK(trace_json(two).find("\"SM 001 predicted, spt\"") != std::string::npos);
  const Timeline alike = overlay({titled("", "spt: full"), titled("", "spt: full")}, std::nullopt);
  CHECK(alike.title == "spt: full");
  CHECK(names(alike) == "predicted; predicted");
  CHECK(trace_json(alike).find("\"SM 001 predicted 2\"") != std::string::npos);
  const Timeline three = overlay(
      {titled("", "shift: full"), titled("", "spt: causal"), titled("D", "spt: causal")}, 1);
  CHECK(three.title == "shift: full");
  CHECK(names(three) == "predicted, shift; predicted, spt; measured on D");
}

TEST_CASE("a trace says measured only of what was") {
  const auto note = [](const std::vector<Timeline>& timelines) {
    const std::string trace = trace_json(overlay(timelines, 1));
    const std::size_t begin = trace.find("\"note\": ");
    return trace.substr(begin, trace.find('}', begin) - begin);
  };
  Timeline predicted = timeline_of("", 1, 2);
  predicted.clock = "ns";
  const Timeline measured = timeline_of("D", 1, 2);
  CHECK(note({predicted, predicted}) == "\"note\": \"predicted\"");
  CHECK(note({measured, measured}) == "\"note\": \"measured\"");
  CHECK(note({predicted, measured}) == "\"note\": \"predicted and measured\"");
  CHECK(perfetto_trace(overlay({predicted, predicted}, 1)).find("and measured") ==
        std::string::npos);
}

TEST_CASE("the critical paths of an overlay are each within its own timeline") {
  Timeline one = timeline_of("", 1, 2);
  for (Interval& interval : one.intervals)
    interval.critical = interval.phase == Phase::reduce;
  const Timeline both = overlay({one, one}, std::nullopt);
  const std::vector<CriticalArrow> arrows = critical_arrows(both);
  REQUIRE(arrows.size() == 2);
  for (const CriticalArrow& arrow : arrows)
    CHECK(arrow.from->layer == arrow.to->layer);
  for (const double resolution : {0.0, 0.5}) {
    const Chart chart = chart_of(both, resolution);
    REQUIRE(chart.hops.size() == 2);
    for (const Hop& hop : chart.hops)
      CHECK((hop.from_row - hop.to_row) % 2 == 0);
  }
}

TEST_CASE("pictures say whose ends the lines of an overlay are") {
  const Timeline one = timeline_of("", 1, 2);
  const Timeline pair = overlay({one, timeline_of("D", 100, 300)}, 100);
  CHECK(dotted_ends(pair) == "p ends");
  CHECK(solid_end(pair) == "m ends");
  const Timeline three = overlay({one, one, one}, std::nullopt);
  CHECK(dotted_ends(three) == "1, 2 end");
  for (const std::string& picture : {gantt_svg(three), gantt_tikz(three)}) {
    CHECK(picture.find("1, 2 end") != std::string::npos);
    CHECK(picture.find("3 ends") != std::string::npos);
  }
}

TEST_CASE("more rows than a picture has are refused, before they are drawn") {
  Timeline wide = timeline_of("", 1, 2);
  wide.sms = 1 << 20;
  CHECK_THROWS_WITH(overlay({wide, wide}, std::nullopt), Catch::Contains("2097152 rows"));
  CHECK_THROWS_WITH(gantt_text(wide), Catch::Contains("1048576 rows"));
  CHECK_THROWS_WITH(gantt_svg(wide), Catch::Contains("1048576 rows"));
  CHECK_THROWS_WITH(gantt_tikz(wide), Catch::Contains("1048576 rows"));
  CHECK_THROWS_WITH(trace_json(wide), Catch::Contains("1048576 rows, of SMs; a trace has"));
  CHECK_THROWS_WITH(perfetto_trace(wide), Catch::Contains("1048576 rows, of SMs; a trace has"));
  const std::string middle_left_out = gantt_text(wide, {.unicode = false, .max_rows = 3});
  CHECK(middle_left_out.find("\n~ 1048573 more SMs\nSM 1048575") != std::string::npos);
}

}  // namespace
}  // namespace stagger::sim
