#include "core/error.hpp"
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
#include <limits>
#include <map>
#include <sstream>
#include <string>
#include <tuple>

namespace stagger::sim {
namespace {

Timeline timeline_of(const char* schedule, const char* mask, std::int64_t n, std::int64_t heads,
                     const Timing& timing) {
  const Table table = schedules::build(schedules::select(schedule),
                                       make_problem(make_mask(mask), {n, n}, {}, heads, n));
  const Simulation simulation = simulate(table, timing);
  return timeline(table, timing, simulation, critical_path(table, timing, simulation));
}

Timeline timeline_on(std::int32_t sms, Ticks makespan) {
  Timeline timeline;
  timeline.sms = sms;
  timeline.heads = 1;
  timeline.makespan = makespan;
  return timeline;
}

Interval interval_of(std::int32_t sm, Phase phase, Ticks start, Ticks end, bool critical = false) {
  return {
      .sm = Sm{sm}, .task = {}, .phase = phase, .start = start, .end = end, .critical = critical};
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

int count_of(const std::string& part, const std::string& text) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++count;
  return count;
}

/// What stands between `before` and `after` the last time before `place`.
std::string last_before(const std::string& text, const std::string& place,
                        const std::string& before, const std::string& after) {
  const std::size_t begin = text.rfind(before, text.find(place));
  if (begin == std::string::npos) return "";
  const std::size_t from = begin + before.size();
  return text.substr(from, text.find(after, from) - from);
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
    const Problem problem = test::any_problem(random, 6);
    const Table table = test::random_live_table(
        random, problem, random.chance(2) ? Dispatch::static_ : Dispatch::in_order);
    Timing timing = test::random_timing(random, problem);
    if (random.chance(3)) timing.compute *= 1000;
    const Simulation simulation = simulate(table, timing);
    const Timeline drawn = timeline(table, timing, simulation);
    TextOptions options{.width = static_cast<int>(random.between(20, 140)),
                        .unicode = random.chance(2),
                        .color = random.chance(2),
                        .max_rows = static_cast<int>(random.between(0, 4))};
    std::istringstream lines(gantt_text(drawn, options));
    CAPTURE(round, options.width);
    REQUIRE(drawable(drawn));
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

TEST_CASE("a column of the text chart shows what most of its ticks are") {
  Timeline timeline = timeline_on(1, 1000);
  for (Ticks time = 0; time < 1000; time += 10) {  // many short computes, few longer waits
    const Ticks ready = time + (time % 100 == 0 ? 3 : 7);
    timeline.intervals.push_back(interval_of(0, Phase::compute, time, ready));
    timeline.intervals.push_back(interval_of(0, Phase::wait, ready, time + 10));
  }
  const std::string text = gantt_text(timeline, {.width = 20, .unicode = false});
  CHECK(text.substr(0, text.find('\n')) == "SM 0  " + std::string(13, '-'));
}

TEST_CASE("a timeline that does not fit its chart is a caller's fault") {
  Timeline timeline = timeline_on(1, 10);
  const auto rejected = [&](Interval interval) {
    timeline.intervals = {interval};
    CHECK_FALSE(drawable(timeline));
    CHECK_THROWS_AS(gantt_text(timeline), ContractViolation);
    CHECK_THROWS_AS(gantt_svg(timeline), ContractViolation);
    CHECK_THROWS_AS(gantt_tikz(timeline), ContractViolation);
  };
  rejected(interval_of(0, Phase::compute, -5, 3));
  rejected(interval_of(0, Phase::compute, 5, 3));
  rejected(interval_of(0, Phase::compute, 5, 11));
  rejected(interval_of(1, Phase::compute, 5, 6));
  rejected(interval_of(-1, Phase::compute, 5, 6));
  timeline.intervals = {interval_of(0, Phase::compute, 5, 6), interval_of(0, Phase::compute, 4, 5)};
  CHECK_FALSE(drawable(timeline));
}

TEST_CASE("what is merged with a critical phase is not outlined as critical") {
  Timeline timeline = timeline_on(1, 100'000);
  for (Ticks time = 0; time < 100'000; time += 10) {
    const bool critical = time >= 50'000 && time < 50'200;
    timeline.intervals.push_back(interval_of(0, Phase::compute, time, time + 10, critical));
  }
  const Chart chart = chart_of(timeline, 0.001);
  CHECK(chart.merged);
  REQUIRE_FALSE(chart.critical.empty());
  CHECK(chart.critical.front().begin == Approx(0.5));
  CHECK(chart.critical.back().end == Approx(0.502));
}

TEST_CASE("hops of the critical path that are too close to be told apart are one line") {
  Timeline timeline = timeline_on(4, 10'000);
  const auto critical = [&](std::int32_t sm, Ticks start, Ticks end) {
    timeline.intervals.push_back(interval_of(sm, Phase::compute, start, end, true));
  };
  critical(0, 0, 5'000);
  critical(1, 5'000, 5'001);
  critical(2, 5'002, 10'000);
  critical(3, 5'001, 5'002);
  CHECK(chart_of(timeline, 0).hops.size() == 3);
  const Chart coarse = chart_of(timeline, 0.01);
  REQUIRE(coarse.hops.size() == 1);
  CHECK(coarse.hops[0].from_row == 0);
  CHECK(coarse.hops[0].to_row == 3);
}

TEST_CASE("empty and huge timelines can be drawn") {
  Timeline timeline;
  CHECK_FALSE(gantt_text(timeline).empty());
  CHECK_FALSE(gantt_svg(timeline).empty());
  CHECK_FALSE(gantt_tikz(timeline).empty());
  CHECK_FALSE(trace_json(timeline).empty());
  timeline.sms = 2;
  timeline.heads = 1;
  for (const Ticks makespan : {Ticks{1} << 62, std::numeric_limits<Ticks>::max()}) {
    timeline.makespan = makespan;
    const Interval interval = interval_of(1, Phase::compute, 5, makespan);
    for (const auto& intervals : {std::vector<Interval>{}, {interval}}) {
      timeline.intervals = intervals;
      for (int width = 20; width < 140; ++width) {
        const std::string text = gantt_text(timeline, {.width = width, .unicode = false});
        CHECK(count_of("|", text) <= 11);
        CHECK(text.find(intervals.empty() ? "SM 1  \n" : "SM 1  0---") != std::string::npos);
      }
      CHECK(count_of("<line", gantt_svg(timeline)) <= 15);
      CHECK(count_of("\\draw", gantt_tikz(timeline)) <= 16);
      CHECK_FALSE(trace_json(timeline).empty());
    }
  }
}

TEST_CASE("titles from outside cannot break a picture") {
  Timeline timeline = timeline_of("shift", "full", 2, 1, {});
  timeline.title = "<script>&\"\\input{x}$%#_^~\x01\xff";
  const std::string svg = gantt_svg(timeline);
  CHECK(svg.find("<script>") == std::string::npos);
  CHECK(svg.find("&lt;script&gt;&amp;&quot;") != std::string::npos);
  CHECK(svg.find('\xff') == std::string::npos);
  CHECK(svg.find("\xef\xbf\xbd") != std::string::npos);
  const std::string tex = gantt_tikz(timeline);
  CHECK(tex.find("\\input{x}") == std::string::npos);
  CHECK(tex.find("\\textbackslash{}input\\{x\\}\\$\\%\\#\\_") != std::string::npos);
}

TEST_CASE("words from outside cannot steer a terminal") {
  Timeline timeline = timeline_on(1, 10);
  timeline.layers = {{.name = "predicted", .tag = "p", .makespan = 10},
                     {.name = "measured on \033[2J\a\xc2\x9b", .tag = "m", .makespan = 10}};
  for (const bool unicode : {false, true}) {
    const std::string text = gantt_text(timeline, {.unicode = unicode});
    CHECK(text.find('\033') == std::string::npos);
    CHECK(text.find('\a') == std::string::npos);
    CHECK(text.find("\xc2\x9b") == std::string::npos);
  }
  CHECK(gantt_svg(timeline).find('\033') == std::string::npos);
  CHECK(gantt_tikz(timeline).find('\033') == std::string::npos);
  CHECK(trace_json(timeline).find('\033') == std::string::npos);
}

TEST_CASE("every letter of a title is itself in TikZ, or what LaTeX writes for it") {
  Timeline timeline = timeline_of("shift", "full", 2, 1, {});
  const auto written = [&](const std::string& letters) {
    timeline.title = "<" + letters + ">";
    const std::string tex = gantt_tikz(timeline);
    const std::size_t begin = tex.find('<');
    return tex.substr(begin + 1, tex.find('>', begin) - begin - 1);
  };
  const std::map<char, std::string> other = {
      {'#', "\\#"}, {'$', "\\$"}, {'%', "\\%"},   {'&', "\\&"},   {'_', "\\_"},
      {'{', "\\{"}, {'}', "\\}"}, {'^', "\\^{}"}, {'~', "\\~{}"}, {'\\', "\\textbackslash{}"}};
  for (char letter = ' '; letter <= '~'; ++letter) {
    if (letter == '<' || letter == '>') continue;
    CAPTURE(letter);
    const auto found = other.find(letter);
    const std::string same = "a" + std::string(1, letter) + "b";
    CHECK(written(same) == (found == other.end() ? same : "a" + found->second + "b"));
  }
  CHECK(written("aµb") == "a$\\mu$b");
}

TEST_CASE("the lower bound has a line where its time is, unless the makespan reaches it") {
  Timeline timeline = timeline_on(1, 10);
  timeline.lower_bound = 6;
  const std::string svg = gantt_svg(timeline);
  CHECK(svg.find(">lower bound 6</text>") != std::string::npos);
  // Its x is that of the axis' mark above the 6.
  const std::string six = last_before(svg, ">6</text>", "<text x=\"", "\"");
  CHECK(last_before(svg, "stroke=\"#b00000\"", "<line x1=\"", "\"") == six);
  CHECK(last_before(svg, "stroke=\"#b00000\"", " x2=\"", "\"") == six);
  const std::string tikz = gantt_tikz(timeline);
  CHECK(tikz.find("{lower bound 6}") != std::string::npos);
  const double tikz_six = std::stod(last_before(tikz, "{6};", "\\draw (", ","));
  const std::string tikz_line = last_before(tikz, "{lower bound", "dashed,red!70!black] (", ",");
  CHECK(std::stod(tikz_line) == Approx(tikz_six));

  timeline.lower_bound = 10;
  CHECK(gantt_svg(timeline).find("#b00000") == std::string::npos);
  CHECK(gantt_svg(timeline).find("makespan 10 = lower bound") != std::string::npos);
  timeline.lower_bound = 0;
  CHECK(gantt_svg(timeline).find("lower bound") == std::string::npos);
}

// SM 0  C0 0-5, then for rank 1, which SM 1 has behind what waits for SM 0's next
// SM 1  C1 0-5, then for ever;     SM 2  C0 0-5, R0 5-6, C1 6-11, for ever;    SM 3  ends
TEST_CASE("what waits for ever is marked in every picture, and nothing else is") {
  Table table;
  table.problem = test::tiles_problem({"ff..", "ff..", "..ff", "..f."}, 1, 4);
  const auto slot = [](std::int32_t kv, std::int32_t q, std::int32_t rank) {
    return Slot{{Head{0}, KvTile{kv}, QTile{q}}, rank};
  };
  for (const std::vector<Slot>& lane :
       {std::vector{slot(0, 0, 1), slot(0, 1, 0)}, std::vector{slot(1, 1, 1), slot(1, 0, 0)},
        std::vector{slot(2, 2, 0), slot(2, 3, 1)}, std::vector{slot(3, 2, 1)}}) {
    table.slots.insert(table.slots.end(), lane.begin(), lane.end());
    table.end_lane();
  }
  for (const Ticks reduce : {1, 0}) {
    const Timing timing{.compute = 5, .reduce = reduce};
    const Timeline timeline = sim::timeline(table, timing, simulate(table, timing));
    REQUIRE(timeline.hangs);
    std::vector<std::int32_t> rows;
    for (const EndlessWait& wait : endless_waits(timeline))
      rows.push_back(wait.row);
    CHECK(rows == std::vector<std::int32_t>{0, 1, 2});
    CHECK(endless_waits(timeline).front().begin == 5);
    CHECK(endless_waits(timeline).back().begin == 10 + reduce);
    CHECK(count_of(">\u00d7<", gantt_svg(timeline)) == 3);
    CHECK(count_of("$\\times$", gantt_tikz(timeline)) == 3);
    for (const int width : {20, 40, 80}) {
      CHECK(count_of("x\n", gantt_text(timeline, {.width = width, .unicode = false})) == 3);
    }
    Timeline sound = timeline;
    sound.hangs = false;
    CHECK(endless_waits(sound).empty());
    for (const std::string& picture : {gantt_svg(sound), gantt_tikz(sound), gantt_text(sound)})
      CHECK(picture.find("for ever") == std::string::npos);
  }
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

TEST_CASE("an SM has a row of its own for reductions only if some SM does both at once") {
  Timeline timeline = timeline_on(2, 20);
  timeline.intervals = {
      interval_of(0, Phase::compute, 0, 5),  interval_of(0, Phase::reduce, 5, 8),
      interval_of(0, Phase::compute, 8, 12), interval_of(1, Phase::reduce, 2, 6),
      interval_of(1, Phase::launch, 6, 9),   interval_of(1, Phase::compute, 9, 20)};
  CHECK_FALSE(chart_of(timeline, 0).split_rows);  // on two SMs at once is not on one
  timeline.intervals[2].start = 7;
  CHECK(chart_of(timeline, 0).split_rows);
  timeline.intervals[2].start = 8;
  timeline.intervals[1].start = 4;
  CHECK(chart_of(timeline, 0).split_rows);
}

TEST_CASE("boxes are merged within a row and never from one row to the next") {
  Timeline timeline = timeline_on(3, 1'000);
  for (std::int32_t sm = 0; sm < 3; ++sm) {
    timeline.intervals.push_back(interval_of(sm, Phase::compute, sm, sm + 1));
    timeline.intervals.push_back(interval_of(sm, Phase::reduce, sm + 1, sm + 2));
  }
  const Chart chart = chart_of(timeline, 0.1);
  CHECK(chart.merged);
  REQUIRE(chart.boxes.size() == 3);
  for (std::int32_t row = 0; row < 3; ++row)
    CHECK(chart.boxes[static_cast<std::size_t>(row)].row == row);
}

TEST_CASE("no two numbers of an SVG's boxes run into each other, however narrow the boxes are") {
  std::int64_t labels = 0;
  for (const std::int64_t n : {2, 4, 6, 8, 9, 10, 11, 12, 14, 24, 60}) {
    const Problem problem = make_problem(make_mask("full"), {n, n}, {}, 1, 3);
    const Table table = schedules::build(schedules::select("ascending"), problem);
    const std::string svg = gantt_svg(timeline(table, {}, simulate(table, {}), {}));
    const std::size_t begin = svg.find("<g text-anchor=\"middle\">");
    REQUIRE(begin != std::string::npos);
    std::istringstream lines(svg.substr(begin, svg.find("</g>", begin) - begin));
    std::map<std::string, double> end_of_row;
    for (std::string line; std::getline(lines, line);) {
      const auto number = [&](const std::string& key) {
        return line.substr(line.find(key) + key.size());
      };
      if (line.find("<text") == std::string::npos) continue;
      const double x = std::stod(number(" x=\""));
      const double size = std::stod(number("font-size=\""));
      const std::string y = number(" y=\"").substr(0, number(" y=\"").find('"'));
      const std::size_t text = line.find('>') + 1;
      // Digits are a little more than half as wide as they are high.
      const double half = 0.55 * size * static_cast<double>(line.find('<', text) - text) / 2;
      CAPTURE(n, line);
      const auto row = end_of_row.try_emplace(y, -1e9).first;
      REQUIRE(x - half >= row->second);
      row->second = x + half;
      ++labels;
    }
  }
  CHECK(labels > 20);
}

TEST_CASE("the axis has round times") {
  CHECK(axis_of(14, 10) == std::vector<Ticks>{0, 2, 4, 6, 8, 10, 12, 14});
  CHECK(axis_of(0, 10) == std::vector<Ticks>{0});
  CHECK(axis_of(118, 10) == std::vector<Ticks>{0, 20, 40, 60, 80, 100});
  CHECK(axis_of(Ticks{1} << 62, 10).size() <= 11);
  CHECK(axis_of(1000, 0) == std::vector<Ticks>{0});
  constexpr Ticks kMost = std::numeric_limits<Ticks>::max();
  constexpr Ticks kStep = 1'000'000'000'000'000'000;
  CHECK(axis_of(kMost, 9).size() == 10);
  CHECK(axis_of(kMost, 9).back() == 9 * kStep);
  CHECK(axis_of(kMost, 5) == std::vector<Ticks>{0, 2 * kStep, 4 * kStep, 6 * kStep, 8 * kStep});
  CHECK(axis_of(kMost, 1) == std::vector<Ticks>{0, 5 * kStep});
  for (Ticks makespan = 1; makespan < kMost / 3; makespan = 3 * makespan + 1) {
    for (int count = 1; count < 30; ++count) {
      const std::vector<Ticks> axis = axis_of(makespan, count);
      CAPTURE(makespan, count);
      REQUIRE(axis.size() <= static_cast<std::size_t>(count) + 1);
      REQUIRE(3 * std::ssize(axis) > std::min<Ticks>(count, makespan));
      REQUIRE(std::is_sorted(axis.begin(), axis.end()));
    }
  }
}

TEST_CASE("an axis and the words beside it are in one unit") {
  Timeline timeline = timeline_of("spt", "causal", 4, 2, {.model = Model::overlap});
  timeline.clock = "ns";
  for (Interval& interval : timeline.intervals) {
    interval.start *= 1000;
    interval.end *= 1000;
  }
  timeline.makespan *= 1000;
  timeline.lower_bound = timeline.makespan - 1'000;
  const std::string number = std::to_string(timeline.makespan / 1000) + ".00";
  const std::string text = gantt_text(timeline);
  CHECK(text.find("makespan " + number + " µs") != std::string::npos);
  CHECK(text.find(" ns") == std::string::npos);
  const std::string ascii = gantt_text(timeline, {.unicode = false});
  CHECK(ascii.find("makespan " + number + " us") != std::string::npos);
  CHECK(std::all_of(ascii.begin(), ascii.end(), [](char letter) { return letter >= 0; }));
  const std::string svg = gantt_svg(timeline);
  CHECK(svg.find(">µs<") != std::string::npos);
  CHECK(svg.find("makespan " + number) != std::string::npos);
  const std::string tikz = gantt_tikz(timeline);
  CHECK(tikz.find("{$\\mu$s}") != std::string::npos);
  CHECK(tikz.find("{makespan " + number) != std::string::npos);
  for (const std::string& picture : {svg, tikz})
    CHECK(picture.find("1,000") == std::string::npos);
}

TEST_CASE("trace events of a thread never overlap, and times in ns are exact") {
  Timeline timeline = timeline_of("spt", "causal", 4, 2, {.model = Model::overlap, .latency = 2});
  const std::string trace = trace_json(timeline);
  CHECK(trace.find("\"name\":\"SM 003\"") != std::string::npos);
  CHECK(trace.find("one tick is shown as one microsecond") != std::string::npos);
  timeline.clock = "ticks/5";
  CHECK(trace_json(timeline).find("1/5 tick is shown as one microsecond") != std::string::npos);
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
  for (const auto& [start, end, digits] :
       {std::tuple{7, 1'000, "\"ts\":0.007,\"dur\":0.993,"},
        std::tuple{12'000'050, 12'000'051, "\"ts\":12000.050,\"dur\":0.001,"},
        std::tuple{999, 3'001'000, "\"ts\":0.999,\"dur\":3000.001,"}}) {
    timeline.intervals = {interval_of(0, Phase::compute, start, end)};
    CHECK(trace_json(timeline).find(digits) != std::string::npos);
  }
}

TEST_CASE("a trace has an arrow wherever the critical path goes to another SM") {
  Timeline timeline = timeline_on(3, 20);
  timeline.intervals = {
      interval_of(0, Phase::compute, 0, 5, true),   interval_of(0, Phase::reduce, 5, 8, true),
      interval_of(0, Phase::compute, 12, 20),       interval_of(1, Phase::reduce, 8, 11, true),
      interval_of(1, Phase::compute, 11, 14, true), interval_of(2, Phase::reduce, 14, 16, true)};
  const std::string trace = trace_json(timeline);
  CHECK(count_of("\"ph\":\"s\"", trace) == 2);
  CHECK(count_of("\"ph\":\"f\"", trace) == 2);
  for (Interval& interval : timeline.intervals)
    interval.critical = false;
  CHECK(count_of("\"ph\":\"s\"", trace_json(timeline)) == 0);
}

}  // namespace
}  // namespace stagger::sim
