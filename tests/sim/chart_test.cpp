// A chart, against what its words say of random rows of phases.

#include "sim/chart.hpp"

#include "core/error.hpp"
#include "sim/gantt_svg.hpp"
#include "sim/gantt_text.hpp"
#include "sim/gantt_tikz.hpp"
#include "sim/trace_json.hpp"
#include "tests/sim/drawn.hpp"
#include "tests/support/catch.hpp"

#include <limits>
#include <string>
#include <vector>

namespace stagger::sim {
namespace {

constexpr Phase kPhases[] = {Phase::launch, Phase::compute,   Phase::wait,
                             Phase::reduce, Phase::reduce_kv, Phase::epilogue};

/// Phases of any kind one after the other, in each row of one or two timelines.
Timeline random_rows(test::Random& random) {
  Timeline drawn{.sms = static_cast<std::int32_t>(random.between(1, 4)), .heads = 3};
  drawn.makespan = random.between(30, 200);
  drawn.hangs = random.chance(2);
  for (std::int64_t layers = random.between(0, 2); layers > 0; --layers)
    drawn.layers.push_back({.name = "n", .tag = "t", .makespan = 1, .hangs = random.chance(2)});
  for (std::int32_t row = 0; row < drawn.rows(); ++row) {
    Ticks time = random.between(0, 9);
    while (time < drawn.makespan && !random.chance(12)) {
      Interval each{.sm = Sm{row / drawn.rows_per_sm()},
                    .task = {Head{static_cast<std::int32_t>(random.between(0, 2))}, {}, {}},
                    .phase = kPhases[random.between(0, 5)],
                    .start = time,
                    .critical = random.chance(5),
                    .layer = row % drawn.rows_per_sm()};
      each.end = std::min(drawn.makespan, time + random.between(1, 9));
      time = each.end + random.between(0, 3);
      drawn.intervals.push_back(each);
    }
  }
  return drawn;
}

TEST_CASE("a wait is for ever if no reduction of its row comes after it") {
  test::Random random(test::seed(135));
  int found = 0;
  for (int round = 0; round < 2'000; ++round) {
    const Timeline drawn = random_rows(random);
    std::vector<std::pair<std::int32_t, Ticks>> wanted;
    for (std::int32_t row = 0; row < drawn.rows(); ++row) {
      Ticks waits = -1;
      for (const Interval& each : drawn.intervals) {
        if (drawn.row_of(each) != row) continue;
        if (each.phase == Phase::wait && waits < 0) waits = each.start;
        if (each.phase == Phase::reduce || each.phase == Phase::reduce_kv) waits = -1;
      }
      const std::int32_t layer = row % drawn.rows_per_sm();
      const bool hangs = drawn.layers.empty() ? drawn.hangs : drawn.layers[at(layer)].hangs;
      if (hangs && waits >= 0) wanted.emplace_back(row, waits);
    }
    std::vector<std::pair<std::int32_t, Ticks>> got;
    for (const EndlessWait& each : endless_waits(drawn))
      got.emplace_back(each.row, each.begin);
    CAPTURE(round);
    REQUIRE(got == wanted);
    found += static_cast<int>(wanted.size());
  }
  CHECK(found > 500);
}

TEST_CASE("all that is not a wait is in a box, and what is critical in an outline") {
  test::Random random(test::seed(136));
  for (int round = 0; round < 1'000; ++round) {
    const Timeline drawn = random_rows(random);
    const Chart fine = chart_of(drawn, 0);
    const auto whole = static_cast<double>(drawn.makespan);
    std::size_t box = 0;
    std::size_t outline = 0;
    CAPTURE(round);
    REQUIRE_FALSE(fine.merged);
    for (const Interval& each : drawn.intervals) {
      if (each.phase == Phase::wait) continue;
      const Box& shown = fine.boxes.at(box++);
      const bool reduces = each.phase == Phase::reduce || each.phase == Phase::reduce_kv;
      REQUIRE(shown.row == drawn.row_of(each));
      REQUIRE(shown.head == each.task.head.value);
      REQUIRE(shown.begin == static_cast<double>(each.start) / whole);
      REQUIRE(shown.end == static_cast<double>(each.end) / whole);
      REQUIRE(shown.style == (each.phase == Phase::compute ? BoxStyle::compute
                              : reduces                    ? BoxStyle::reduce
                                                           : BoxStyle::overhead));
      REQUIRE(shown.label == (each.phase == Phase::compute     ? "0"
                              : each.phase == Phase::reduce_kv ? "dK"
                                                               : ""));
      if (!each.critical) continue;
      REQUIRE(fine.critical.at(outline).row == shown.row);
      REQUIRE(fine.critical.at(outline++).begin == shown.begin);
    }
    REQUIRE(box == fine.boxes.size());
    REQUIRE(outline == fine.critical.size());
  }
}

/// Whether every phase that is not a wait lies in a box of its row and head.
bool all_boxed(const Timeline& drawn, const Chart& chart) {
  return std::ranges::all_of(drawn.intervals, [&](const Interval& each) {
    const auto whole = static_cast<double>(drawn.makespan);
    return each.phase == Phase::wait || std::ranges::any_of(chart.boxes, [&](const Box& box) {
             return box.row == drawn.row_of(each) && box.head == each.task.head.value &&
                    box.begin <= static_cast<double>(each.start) / whole &&
                    box.end >= static_cast<double>(each.end) / whole;
           });
  });
}

TEST_CASE("the finest chart is taken that has no more shapes than asked for") {
  test::Random random(test::seed(137));
  int coarser = 0;
  for (int round = 0; round < 500; ++round) {
    const Timeline drawn = random_rows(random);
    const auto most = static_cast<std::size_t>(random.between(1, 60));
    double resolution = 0.01;
    const auto shapes = [](const Chart& chart) {
      return chart.boxes.size() + chart.critical.size() + chart.hops.size();
    };
    while (resolution < 1 && shapes(chart_of(drawn, resolution)) > most)
      resolution *= 1.5;
    const Chart wanted = chart_of(drawn, resolution);
    const Chart chart = chart_within(drawn, 0.01, most);
    CAPTURE(round, most);
    REQUIRE(shapes(chart) == shapes(wanted));
    REQUIRE(chart.boxes.size() == wanted.boxes.size());
    REQUIRE(all_boxed(drawn, chart));
    coarser += resolution > 0.01 ? 1 : 0;
    for (std::size_t box = 1; box < chart.boxes.size(); ++box) {
      const Box& left = chart.boxes[box - 1];
      const Box& right = chart.boxes[box];
      REQUIRE((left.row < right.row || (left.row == right.row && left.end <= right.begin)));
    }
  }
  CHECK(coarser > 100);
}

TEST_CASE("an interval may touch every edge of its chart, and lie beyond none") {
  const Interval inside{.sm = Sm{1},
                        .task = {Head{0}, {}, {}},
                        .phase = Phase::compute,
                        .start = 0,
                        .end = 10,
                        .layer = 1};
  Timeline drawn{.sms = 2, .heads = 1, .makespan = 10};
  drawn.layers = {{.name = "a", .tag = "1"}, {.name = "b", .tag = "2"}};
  const auto fits = [&](const Interval& interval) {
    drawn.intervals = {interval};
    return drawable(drawn);
  };
  const auto changed = [&](auto change) {
    Interval other = inside;
    change(other);
    return fits(other);
  };
  CHECK(fits(inside));
  CHECK(changed([](Interval& each) { each.end = 0; }));
  CHECK(changed([](Interval& each) { each.start = 10; }));
  CHECK(changed([](Interval& each) { each.sm.value = 0; }));
  CHECK(changed([](Interval& each) { each.layer = 0; }));
  CHECK_FALSE(changed([](Interval& each) { each.sm.value = 2; }));
  CHECK_FALSE(changed([](Interval& each) { each.sm.value = -1; }));
  CHECK_FALSE(changed([](Interval& each) { each.layer = 2; }));
  CHECK_FALSE(changed([](Interval& each) { each.layer = -1; }));
  CHECK_FALSE(changed([](Interval& each) { each.task.head.value = -1; }));
  CHECK_FALSE(changed([](Interval& each) { each.start = -1; }));
  CHECK_FALSE(changed([](Interval& each) { each.end = 11; }));
  CHECK_FALSE(changed([](Interval& each) { each.start = 6, each.end = 5; }));
  // By SM, then by layer, then by start.
  const auto in_order = [&](auto change) {
    Interval second = inside;
    change(second);
    drawn.intervals = {inside, second};
    return drawable(drawn);
  };
  CHECK(in_order([](Interval&) {}));
  CHECK(in_order([](Interval& each) { each.start = 1; }));
  CHECK_FALSE(in_order([](Interval& each) { each.layer = 0; }));
  CHECK_FALSE(in_order([](Interval& each) { each.sm.value = 0; }));
}

TEST_CASE("a picture has at most 2^14 rows") {
  CHECK_NOTHROW(expect_few(1 << 14));
  CHECK_THROWS_AS(expect_few((1 << 14) + 1), Error);
  Timeline tall{.sms = 1 << 14, .makespan = 1};
  CHECK(gantt_svg(tall).find(">SM 16383<") != std::string::npos);
  ++tall.sms;
  CHECK_THROWS_AS(gantt_svg(tall), Error);
  CHECK_THROWS_AS(gantt_tikz(tall), Error);
  CHECK_THROWS_AS(gantt_text(tall), Error);
  CHECK_THROWS_AS(trace_json(tall), Error);
}

}  // namespace
}  // namespace stagger::sim
