// Whole pictures, kept in tests/golden: small ones to be read and looked at, large ones by a
// digest.

#include "schedules/schedule.hpp"
#include "sim/critical_path.hpp"
#include "sim/gantt_svg.hpp"
#include "sim/gantt_text.hpp"
#include "sim/gantt_tikz.hpp"
#include "sim/overlay.hpp"
#include "sim/timeline.hpp"
#include "sim/trace_json.hpp"
#include "tests/sim/drawn.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/golden.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace stagger::sim {
namespace {

Timeline played(const char* schedule, const Problem& problem, const Timing& timing) {
  const Table table = schedules::build(schedules::select(schedule), problem, timing);
  const Simulation simulation = simulate(table, timing);
  Timeline drawn = timeline(table, timing, simulation, critical_path(table, timing, simulation));
  drawn.title = std::string(schedule) + ": " + describe(problem);
  return drawn;
}

Timeline chain_picture() {
  Timeline drawn = played("symmetric-shift", make_problem(make_mask("causal"), {4, 4}, {}, 3, 4),
                          {.compute = 7, .reduce = 2, .launch = 3, .epilogue = 2});
  drawn.lower_bound = drawn.makespan - 11;
  return drawn;
}

Timeline overlap_picture() {
  Timeline drawn = played("spt", make_problem(make_mask("causal"), {3, 3}, {}, 9, 2),
                          {.model = Model::overlap, .compute = 4, .reduce = 3, .latency = 2});
  drawn.lower_bound = drawn.makespan;
  return drawn;
}

Timeline combined_picture() {
  const Problem problem = make_problem(make_mask("full"), {3, 3}, {}, 4, 3,
                                       {.heads_kv = 2, .span = 1, .combine = Combine::ordered});
  return played("ascending", problem, {.compute = 5, .reduce = 2, .reduce_kv = 4});
}

Timeline hanging_picture() {
  Table table = schedules::build(schedules::select("shift"),
                                 make_problem(make_mask("full"), {3, 3}, {}, 1, 3));
  std::swap(table.slots[1].rank, table.slots[2].rank);
  std::swap(table.slots[5], table.slots[4]);
  const Timing timing{.compute = 5, .reduce = 1};
  return timeline(table, timing, simulate(table, timing));
}

Timeline overlay_picture() {
  Timeline measured = played("ascending", make_problem(make_mask("full"), {3, 3}, {}, 2, 3), {});
  for (Interval& interval : measured.intervals) {
    interval.start = 1130 * interval.start + 40 * interval.sm.value;
    interval.end = 1130 * interval.end + 40 * interval.sm.value;
  }
  measured.makespan = 1130 * measured.makespan + 80;
  measured.clock = "ns";
  measured.device = "a GPU & <more>_x";
  Timeline predicted = played("ascending", make_problem(make_mask("full"), {3, 3}, {}, 2, 3), {});
  return overlay({measured, predicted}, 1000);
}

Timeline three_layers_picture() {
  Timeline hangs = hanging_picture();
  Timeline late = played("descending", make_problem(make_mask("full"), {3, 3}, {}, 1, 3), {});
  return overlay({late, hangs, late}, std::nullopt);
}

/// More heads than colours on one SM, whose row is all there is, above a curve that crosses L2. A
/// bound beyond its end has no line.
Timeline curve_picture() {
  Timeline drawn = played("descending", make_problem(make_mask("causal"), {2, 2}, {}, 9, 1),
                          {.compute = 4, .reduce = 2, .launch = 1});
  drawn.dq = DqMemory{.tile_bytes = 8'192, .l2_bytes = 12'000};
  drawn.lower_bound = drawn.makespan + 1;
  return drawn;
}

/// One SM of two timelines, the first of which hangs; less is in flight than L2 holds.
Timeline two_rows_picture() {
  Timeline hangs = hanging_picture();
  std::erase_if(hangs.intervals, [](const Interval& interval) { return interval.sm.value > 0; });
  hangs.sms = 1;
  Timeline sound = played("ascending", make_problem(make_mask("full"), {1, 3}, {}, 2, 1), {});
  Timeline both = overlay({hangs, sound}, std::nullopt);
  both.dq = DqMemory{.tile_bytes = 8'192, .l2_bytes = 40'000};
  return both;
}

/// A compute phase, a reduction and a wait on each of so many SMs.
Timeline tall_picture(std::int32_t sms) {
  Timeline drawn{.sms = sms, .heads = 2, .makespan = 100, .title = "tall"};
  for (std::int32_t sm = 0; sm < sms; ++sm) {
    const Task task{Head{sm % 2}, KvTile{sm}, QTile{sm}};
    const auto add = [&](Phase phase, Ticks start, Ticks end) {
      drawn.intervals.push_back({.sm = Sm{sm},
                                 .task = task,
                                 .phase = phase,
                                 .start = start,
                                 .end = end,
                                 .critical = sm == sms / 2});
    };
    add(Phase::compute, sm % 7, sm % 7 + 40);
    add(Phase::reduce, sm % 7 + 40, sm % 7 + 60);
    add(Phase::wait, sm % 7 + 60, 90);
  }
  drawn.hangs = true;
  return drawn;
}

/// So many short phases that they are merged; some of them overlap reductions.
Timeline dense_picture(bool split) {
  Timeline drawn{.sms = 3, .heads = 8, .makespan = 9'000, .title = "dense"};
  for (std::int32_t sm = 0; sm < 3; ++sm) {
    for (Ticks time = 0; time < 8'990; time += 10) {
      const Task task{Head{static_cast<std::int32_t>(time / 2'000 + sm)}, KvTile{sm}, QTile{3}};
      const bool critical = time / 1'000 % 3 == sm;
      drawn.intervals.push_back({.sm = Sm{sm},
                                 .task = task,
                                 .phase = Phase::compute,
                                 .start = time,
                                 .end = time + (time % 700 == 0 ? 10 : 6),
                                 .critical = critical});
      drawn.intervals.push_back({.sm = Sm{sm},
                                 .task = task,
                                 .phase = time % 90 == 0 ? Phase::epilogue : Phase::reduce,
                                 .start = time + (split ? 5 : 6),
                                 .end = time + 9,
                                 .critical = critical});
    }
  }
  return drawn;
}

struct Picture {
  const char* name;
  Timeline timeline;
};

std::vector<Picture> small_pictures() {
  return {{"chain", chain_picture()},
          {"overlap", overlap_picture()},
          {"combined", combined_picture()},
          {"hanging", hanging_picture()},
          {"overlay", overlay_picture()},
          {"three-layers", three_layers_picture()},
          {"curve", curve_picture()},
          {"two-rows", two_rows_picture()},
          {"empty", Timeline{.sms = 2, .title = "nothing"}}};
}

TEST_CASE("small pictures are those that were looked at") {
  for (const auto& [name, drawn] : small_pictures()) {
    const std::string file(name);
    CHECK(test::golden_difference(file + ".svg", gantt_svg(drawn)) == "");
    CHECK(test::golden_difference(file + ".tex", gantt_tikz(drawn)) == "");
    CHECK(test::golden_difference(file + ".trace.json", trace_json(drawn)) == "");
    std::string text;
    for (const TextOptions& options :
         {TextOptions{.width = 76}, TextOptions{.width = 40, .unicode = false},
          TextOptions{.width = 24, .unicode = false, .max_rows = 2}, TextOptions{.color = true}})
      text += gantt_text(drawn, options) + "\n";
    CHECK(test::golden_difference(file + ".txt", text) == "");
  }
}

TEST_CASE("the widths of small pictures are theirs to choose") {
  const Timeline drawn = chain_picture();
  CHECK(test::golden_difference("narrow.svg", gantt_svg(drawn, {.width = 400})) == "");
  CHECK(test::golden_difference("narrow.tex", gantt_tikz(drawn, {.width_cm = 6})) == "");
}

TEST_CASE("pictures of random timelines are as kept") {
  test::Random random(134);
  std::string digests;
  for (int round = 0; round < 150; ++round) {
    Timeline drawn = random.chance(3) ? drawn_overlay(random, 3) : drawn_timeline(random, 4);
    if (random.chance(8)) {
      for (Interval& interval : drawn.intervals) {
        interval.start *= 997;
        interval.end *= 997;
      }
      drawn.makespan *= 997;
    }
    const TextOptions options{.width = static_cast<int>(random.between(20, 110)),
                              .unicode = random.chance(2),
                              .max_rows = static_cast<int>(random.between(0, 5))};
    digests += std::to_string(round) + " svg " + test::text_digest(gantt_svg(drawn)) + " tex " +
               test::text_digest(gantt_tikz(drawn)) + " txt " +
               test::text_digest(gantt_text(drawn, options)) + " trace " +
               test::text_digest(trace_json(drawn)) + "\n";
  }
  CHECK(test::golden_difference("drawn.txt", digests) == "");
}

// Rows become thinner, then are named by fours and eights, then lose their crosses.
TEST_CASE("large pictures are those that were looked at") {
  std::string digests;
  const auto add = [&](const std::string& name, const Timeline& drawn) {
    digests += name + " svg " + test::text_digest(gantt_svg(drawn)) + " tex " +
               test::text_digest(gantt_tikz(drawn)) + " txt " +
               test::text_digest(gantt_text(drawn, {.width = 100})) + " 12 rows " +
               test::text_digest(gantt_text(drawn, {.max_rows = 12})) + "\n";
  };
  for (std::int32_t sms = 1; sms <= 200; ++sms)
    add("tall " + std::to_string(sms), tall_picture(sms));
  for (std::int32_t sms = 1; sms <= 90; ++sms) {
    add("two layers " + std::to_string(sms),
        overlay({tall_picture(sms), tall_picture(sms)}, std::nullopt));
  }
  add("dense", dense_picture(false));
  add("dense, split", dense_picture(true));
  CHECK(test::golden_difference("large.txt", digests) == "");
}

}  // namespace
}  // namespace stagger::sim
