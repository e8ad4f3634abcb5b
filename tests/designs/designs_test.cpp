#include "core/error.hpp"
#include "tests/designs/played.hpp"
#include "tests/support/catch.hpp"
#include "workbench/designs/advice.hpp"
#include "workbench/designs/comparison.hpp"
#include "workbench/designs/design.hpp"
#include "workbench/designs/free_lanes.hpp"
#include "workbench/designs/opentau.hpp"
#include "workbench/designs/split.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>
#include <string>

namespace stagger::designs {
namespace {

TEST_CASE("designs take the ticks that were worked out by hand") {
  const Problem problem = causal(8, 4, 8);
  CHECK(played("ordered", problem, "symmetric-shift").makespan == 108);
  // Programs of 35 - p ticks, 1008 in all: 126 is the least there is.
  CHECK(played("two-pass", problem).makespan == 126);
  const Analysis split = played("split", problem);
  CHECK(split.plan.note == "2 dQ buffers, 8 workers");
  CHECK(split.lanes == 8);
  CHECK(split.makespan == 120);
  CHECK(played("head-per-cta", problem).makespan == 216);
  // 4 c of each task in whole chains, then 3 c.
  const Analysis twice = played("two-pass:launches=2", problem);
  CHECK(twice.stages.size() == 2);
  CHECK(twice.makespan == twice.stages[0] + twice.stages[1]);
  CHECK(twice.stages[0] >= 4 * 144 / 8);
  CHECK(twice.stages[1] >= 3 * 144 / 8);
}

TEST_CASE("fractions of ticks add up before they are rounded") {
  // c = 4: 3.2 and 2.4 ticks; two tiles are 6.4 + 4.8 = 11.2.
  Request request = request_of(make_problem(make_mask("full"), {2, 1}, {}, 1, 1));
  request.model.timing.compute = 4;
  CHECK(analyze(select("two-pass"), request).makespan == 12);
  CHECK(analyze(select("two-pass"), request).plan.units == 5);
  CHECK(analyze(select("two-pass:launches=2"), request).stages == std::vector<Ticks>{7, 5});
  CHECK(analyze(select("two-pass:launches=2"), request).makespan == 12);
}

struct Measured {
  std::int64_t batch, heads, seq;
  const char* mask;
  double simulated;  ///< by an own program
  double measured;   ///< deterministic / not, flash backward of torch 2.11 on an H200
};

TEST_CASE("what FlashAttention-2's deterministic mode costs is within 8 % of what was measured") {
  constexpr std::array kShapes = {
      Measured{1, 32, 8192, "causal", 1.558, 8.049 / 5.002},
      Measured{1, 32, 16384, "causal", 1.639, 30.20 / 17.87},
      Measured{1, 32, 32768, "causal", 1.649, 117.1 / 68.19},
      Measured{1, 28, 8192, "causal", 1.766, 1.758},
      Measured{1, 28, 16384, "causal", 1.872, 1.932},
      Measured{1, 64, 4096, "full", 1.375, 1.433},
      Measured{1, 64, 8192, "full", 1.344, 1.369},
      Measured{1, 64, 16384, "full", 1.365, 1.429},
      Measured{16, 16, 4096, "full", 1.016, 16.71 / 16.24},
      Measured{16, 38, 4096, "full", 1.081, 1.113},
      Measured{16, 24, 4096, "full", 1.021, 1.057},
      Measured{16, 32, 4096, "full", 1.024, 1.069},
      Measured{1, 32, 4096, "full", 1.625, 1.541},
  };
  for (const Measured& shape : kShapes) {
    CAPTURE(shape.batch, shape.heads, shape.seq, shape.mask);
    Request request = request_of(large(shape.mask, shape.seq, shape.batch * shape.heads));
    request.model.timing.reduce = 0;
    const double ratio = static_cast<double>(analyze(select("split"), request).makespan) /
                         static_cast<double>(without_order(request.problem, request.model));
    CHECK(ratio == Approx(shape.simulated).margin(0.0006));
    CHECK(std::abs(ratio / shape.measured - 1) <= 0.08);
  }
}

TEST_CASE("waves of workers: one more than fills them costs the most") {
  const auto ratio = [](std::int64_t heads) {
    Problem problem = make_problem(make_mask("full"), {1, 1}, {}, heads, 132);
    const double workers = static_cast<double>(heads * flash_buffers(problem));
    return std::ceil(workers / 132) * 132 / workers;
  };
  CHECK(ratio(8) == Approx(1.941).margin(5e-4));
  CHECK(ratio(67) == Approx(1.970).margin(5e-4));
  CHECK(ratio(131) == Approx(1.008).margin(5e-4));
  CHECK(ratio(132) == 1);
  CHECK(ratio(133) == Approx(1.985).margin(5e-4));
  CHECK(ratio(264) == 1);
  CHECK(ratio(265) == Approx(1.494).margin(5e-4));
}

TEST_CASE("the best number of buffers is the best of all of them") {
  for (const std::int64_t heads : {1, 3, 5, 8}) {
    for (const std::int64_t sms : {1, 4, 7, 16}) {
      CAPTURE(heads, sms);
      const Problem problem = causal(9, heads, sms);
      const Analysis best = played("split-best", problem);
      for (int buffers = 1; buffers <= 9; ++buffers) {
        const std::string text = "split:buffers=" + std::to_string(buffers);
        CHECK(played(text.c_str(), problem).makespan >= best.makespan);
      }
      CHECK(best.makespan <= played("split", problem).makespan);
    }
  }
  // One wave of 4 x 32 workers instead of two of 5 x 32.
  const Problem problem = large("full", 16384, 32);
  Request request = request_of(problem);
  request.model.timing = {.reduce = 0};
  CHECK(best_buffers(request) == 4);
  CHECK(flash_buffers(problem) == 5);
}

TEST_CASE("OpenTau's memory is what its kernels ask for") {
  const auto workspace = [](std::int64_t batch, std::int64_t seq) {
    Request request = request_of(make_problem(make_mask("causal"), {seq, seq}, {128, 128},
                                              8 * batch, 132, {.heads_kv = batch}));
    request.head_dim = 256;
    return plan(select("opentau"), request).workspace_bytes;
  };
  CHECK(workspace(2, 1024) == 33'554'432);
  CHECK(workspace(8, 8192) == 1'073'741'824);
  CHECK(opentau_dkv_shared_bytes(256, 1) == 85'488);
  CHECK(opentau_dkv_shared_bytes(256, 2) == 137'792);
  CHECK(opentau_dq_shared_bytes(256, 1) == 52'000);
  CHECK(opentau_dq_shared_bytes(256, 2) == 87'536);
  CHECK(opentau_dq_shared_bytes(256, 3) == 123'072);
}

TEST_CASE("chains by head pack a 3090 better than chains of groups") {
  // 64 KV tiles of 16 tokens, 2 sequences of 8 heads that share K and V, on 82 SMs: by hand.
  const auto longest_first = [](bool causal, bool by_head) {
    std::vector<Ticks> durations;
    for (Ticks tile = 0; tile < 64; ++tile) {
      for (int copy = 0; copy < (by_head ? 16 : 2); ++copy)
        durations.push_back((by_head ? 1 : 8) * (causal ? 64 - tile : 64));
    }
    std::ranges::sort(durations, std::greater<>());
    return in_order_makespan(durations, 82);
  };
  CHECK(longest_first(true, false) == 512);
  CHECK(longest_first(true, true) == 407);
  CHECK(longest_first(false, false) == 1024);
  CHECK(longest_first(false, true) == 832);
}

TEST_CASE("workspace and traffic of LLaMA3-8B at 16k are those of the table") {
  const Request request = request_of(large("causal", 16384, 32, 8));
  const auto expect = [&](const char* design, double mib, double gigabytes) {
    CAPTURE(design);
    Request asked = request;
    if (select(design).design->needs_schedule) asked.schedule = schedules::select("spt");
    const Plan plan = designs::plan(select(design), asked);
    CHECK(static_cast<double>(plan.workspace_bytes) / (1 << 20) == Approx(mib).epsilon(2e-4));
    CHECK(1e-9 * static_cast<double>(plan.hbm_bytes) == Approx(gigabytes).epsilon(0.01));
  };
  expect("ordered", 384, 1.485);
  expect("split", 1536, 3.90);
  expect("two-pass:launches=2", 0, 1.015);
  expect("opentau", 512, 2.09);
  expect("ds-store", 16384, 17.86);
  // To the byte.
  const Plan two_pass = designs::plan(select("two-pass:launches=2"), request);
  CHECK(two_pass.hbm_bytes == 2 * (3 * 67108864LL + 2 * 16777216) +
                                  2 * (67108864LL + 2 * 16777216) + 16 * 32 * 16384LL +
                                  2 * (2 * 67108864LL + 2 * 16777216));
  CHECK(two_pass.flops == 14LL * 128 * 128 * 128 * 264192);
  CHECK(designs::plan(select("split"), request).flops == 10LL * 128 * 128 * 128 * 264192);
  CHECK(designs::plan(select("split"), request).launches() == 4 + 2);
  CHECK(designs::plan(select("opentau"), request).launches() == 4);
  CHECK(two_pass.launches() == 3);
}

TEST_CASE("launches are those of the kernels") {
  const Problem problem = causal(8, 4, 8);
  CHECK(played("ordered", problem, "spt").plan.launches() == 3);
  CHECK(played("split", problem).plan.launches() == 4);
  CHECK(played("two-pass", problem).plan.launches() == 2);
  CHECK(played("two-pass:launches=2", problem).plan.launches() == 3);
  CHECK(played("opentau", problem).plan.launches() == 4);
  CHECK(played("ds-store", problem).plan.launches() == 3);
  CHECK(played("q-stationary", problem).plan.launches() == 5);
  CHECK(played("cluster", problem).plan.launches() == 3);
}

TEST_CASE("a mask with a global column is where two passes win, though they do more") {
  // One KV tile is seen by all 128 Q tiles, the others by 8: chains of 768 against 512 + 27 ticks.
  std::vector<std::string> rows(128, std::string(128, '.'));
  rows[0] = std::string(128, 'f');
  for (std::size_t kv = 1; kv < 128; ++kv) {
    for (std::size_t q = kv; q < std::min<std::size_t>(kv + 8, 128); ++q)
      rows[kv][q] = 'f';
  }
  const Problem problem =
      make_problem(make_mask("tiles", {{"rows", rows}}), {128, 128}, {}, 1, 132);
  const Analysis passes = played("two-pass:launches=2", problem);
  CHECK(passes.stages[0] == 4 * 128);
  CHECK(passes.stages[1] == 3 * 9);
  CHECK(passes.makespan == 539);
  CHECK(played("ordered", problem, "spt").makespan >= 768);
}

TEST_CASE("cross-attention to few keys is where Q tiles should stay") {
  const Problem problem = make_problem(make_mask("full"), {4096, 333}, {128, 128}, 24, 132);
  // 72 chains of 32 tasks leave 60 SMs idle; 768 chains of 3 tasks fill all of them. With r_q = 2 r
  // no schedule of the house keeps that: 72 tiles are all there is to add to.
  Request request = request_of(problem, "grid-ascending");
  request.model.timing.reduce = 0;
  const Analysis mirror = analyze(select("q-stationary"), request);
  const Analysis ordered = analyze(select("ordered"), request);
  CHECK(ordered.lanes == 72);
  CHECK(mirror.lanes == 768);
  CHECK(ordered.makespan == 32 * 5);
  CHECK(mirror.makespan == 6 * 3 * 5);
  CHECK(mirror.table->table.problem.kv_tiles() == 32);
}

TEST_CASE("a mirrored problem and pairs have the tasks of the problem") {
  const Problem problem =
      make_problem(make_mask("causal"), {40, 24}, {4, 8}, 6, 5, {.heads_kv = 2, .span = 3});
  const Timeline mirror = timeline_of(played("q-stationary", problem), problem);
  std::multiset<Task> seen;
  for (const Interval& interval : mirror.intervals) {
    if (interval.phase == Phase::compute) seen.insert(interval.task);
  }
  CHECK(std::ssize(seen) == problem.tasks());
  for (const Task& task : seen) {
    CHECK(problem.contains(task));
    CHECK(problem.live(task));
    CHECK(seen.count(task) == 1);
  }
  // A pair of tiles is one task: 2 of the 3 KV tiles, and the third.
  const Analysis pairs = played("cluster", problem);
  CHECK(pairs.table->table.problem.kv_tiles() == 2);
  CHECK(pairs.table->table.problem.sms == 2);
}

TEST_CASE("pairs halve the reduction and pay for the exchange") {
  const Problem problem = make_problem(make_mask("full"), {8, 8}, {}, 4, 8);
  Request request = request_of(problem, "shift");
  request.model.timing.reduce = 4;
  // 4 pairs on 4 clusters, 8 tasks each, four heads: shift loses nothing.
  CHECK(analyze(select("cluster"), request).makespan == 4 * 8 * (5 + 2));
  CHECK(analyze(select("cluster:exchange=1"), request).makespan == 4 * 8 * (6 + 2));
  request.model.timing.reduce = 1;
  CHECK(analyze(select("cluster"), request).makespan == 4 * 8 * 11 / 2);
}

TEST_CASE("the mirror image takes a causal mask to a causal mask") {
  const Problem problem = causal(8, 4, 8);
  Request request = request_of(problem, "symmetric-shift");
  // r_q = 2: symmetric shift in closed form, m (n + 1)(c + r_q) / 2.
  CHECK(analyze(select("q-stationary"), request).makespan == 4 * 9 * (5 + 2) / 2);
}

TEST_CASE("half as many clusters are resident as CTAs, and one of one") {
  const auto makespan = [](std::int32_t residency) {
    Request request = request_of(causal(8, 2, 8), "spt");
    request.model.timing.residency = residency;
    return analyze(select("cluster"), request).makespan;
  };
  CHECK(makespan(2) == makespan(3));
  CHECK(makespan(1) == makespan(2));
  CHECK(makespan(4) < makespan(2));
  CHECK(makespan(0) == makespan(8));
  CHECK(makespan(0) < makespan(4));
}

TEST_CASE("designs that do not apply say why") {
  const Problem grouped = large("causal", 2048, 8, 2);
  CHECK(why_unsupported(select("two-pass"), request_of(grouped))->find("launches=2") !=
        std::string::npos);
  CHECK_FALSE(why_unsupported(select("two-pass:launches=2"), request_of(grouped)));
  CHECK(why_unsupported(select("cluster"), request_of(causal(4, 1, 1)))->find("two SMs") !=
        std::string::npos);
  CHECK(why_unsupported(select("ordered"), request_of(grouped)) == "it needs a schedule");
  CHECK(why_unsupported(select("split"), request_of(grouped, "spt")) == "it plays no schedule");
  CHECK_THROWS_WITH(static_cast<void>(played("cluster", causal(4, 1, 1))),
                    Catch::Contains("cluster: a cluster of two CTAs"));
  CHECK_THROWS_WITH(static_cast<void>(select("splt")), Catch::Contains("did you mean split?"));
  CHECK_THROWS_WITH(static_cast<void>(select("split:buffers=x")), Catch::Contains("buffers = 'x'"));
}

TEST_CASE("block-causal ids that decrease are refused with what would go wrong") {
  // Q tile 0 has 8 queries that see the key; a rule that asks its last query finds none.
  std::vector<std::int64_t> q_blocks(32, 1);
  std::fill_n(q_blocks.begin(), 8, 5);
  const Mask mask = make_mask(
      "block-causal", {{"q_blocks", q_blocks}, {"kv_blocks", std::vector<std::int64_t>{3}}});
  CHECK_THROWS_WITH(static_cast<void>(make_problem(mask, {32, 1}, {16, 16}, 1, 1)),
                    Catch::Contains("q_blocks[8] = 1 is below the block before it") &&
                        Catch::Contains("last query"));
}

TEST_CASE("a comparison has a row for every schedule and every design") {
  ComparisonRequest request{.request = request_of(causal(8, 4, 8))};
  for (const schedules::Schedule* schedule : schedules::all())
    request.schedules.push_back(schedules::select(schedule->name));
  const Comparison comparison = compare(request);
  CHECK(comparison.rows.size() == schedules::all().size() + compared().size());
  REQUIRE(comparison.best() != nullptr);
  CHECK(comparison.best()->analysis->makespan == 108);
  CHECK(comparison.without_order == 108);
  Ticks before = 0;
  for (const ComparisonRow& row : comparison.rows) {
    CAPTURE(row.name);
    CHECK(row.unsupported.empty() == row.analysis.has_value());
    if (!row.ok()) continue;
    CHECK(row.analysis->takes() >= before);
    before = row.analysis->takes();
  }
  const ComparisonRow* invariant = comparison.best_without({"sms", "batch"});
  REQUIRE(invariant != nullptr);
  CHECK(invariant->analysis->makespan >= 108);
  for (const char* word : invariant->analysis->plan.bits_depend_on)
    CHECK(word != std::string("sms"));
  // What has an entry for each task or tile is not kept.
  for (const ComparisonRow& row : comparison.rows) {
    if (!row.analysis) continue;
    CAPTURE(row.name);
    for (const Stage& stage : row.analysis->plan.stages) {
      CHECK(std::get<FreeLanes>(stage.work).chains.empty());
      CHECK(stage.problem.mask.values.empty());
      CHECK(stage.problem.grids == HeadGrids());
    }
    if (!row.analysis->table) continue;
    const Table& table = row.analysis->table->table;
    CHECK(table.slots.capacity() == 0);
    CHECK(table.lane_begin.size() == 1);
    CHECK(table.problem.grids == HeadGrids());
    CHECK_FALSE(row.analysis->table->simulation.has_value());
    CHECK(row.analysis->table->critical_path.steps.empty());
  }
  request.stop = [] { return true; };
  CHECK(compare(request).rows.empty());
}

TEST_CASE("in ns a design has its passes and launches, and dS its memory") {
  Request request = request_of(large("causal", 4096, 16));
  request.model.clock = workbench::Clock::ns;
  request.model.timing.compute = 4080;
  request.model.timing.reduce = 1206;
  request.model.timing.memory = Memory{
      .l2 = std::int64_t{1} << 40, .rate = 4200, .tile = {.q = 1, .dq = 1, .kv = 1, .gradient = 1}};
  const Analysis stored = analyze(select("ds-store"), request);
  // Stored and loaded dS takes longer than its GEMM: 2 e Bq Bk a tile.
  CHECK(stored.stages[1] == (528 * 16 * 2 * 2 * 128 * 128LL + 4199) / 4200);
  const Analysis passes = analyze(select("two-pass"), request);
  REQUIRE(passes.elapsed.has_value());
  // D: 2 e X + 4 rows bytes, a launch; and the kernel's launch.
  const Ticks d_pass = (2 * 2 * 16 * 4096 * 128LL + 4 * 16 * 4096 + 4199) / 4200;
  CHECK(*passes.elapsed == passes.makespan + 3000 + d_pass + 3000);
  request.model.timing.memory.reset();
  CHECK_FALSE(analyze(select("two-pass"), request).elapsed.has_value());
}

TEST_CASE("designs know one mask for all heads, and say so before they are compared") {
  const Problem by_head =
      make_problem(parse_mask("heads:heads=0+1; causal; full"), {4, 4}, {}, 2, 2);
  for (const Selection& selection : compared())
    CHECK(why_unsupported(selection, request_of(by_head)) == "it knows one mask for all heads");
  CHECK_THROWS_WITH(compare({.request = request_of(by_head)}),
                    Catch::Contains("a comparison of designs"));
}

TEST_CASE("a kernel whose Q tiles stay takes no steps of them") {
  const Problem problem = make_problem(make_mask("causal"), {9, 9}, {}, 2, 3);
  const auto makespan = [&](std::int32_t steps) {
    Request request = request_of(problem);
    request.model.timing = {.compute = 6, .reduce = 4, .steps = steps};
    request.schedule = schedules::select("descending");
    return analyze(select("q-stationary"), request).makespan;
  };
  CHECK(makespan(2) == makespan(1));
}

TEST_CASE("a mirrored reduction that is too long is a limit though the problem's is not") {
  // dK and dV of 1024 keys each are 2048 times as long as dQ of one query.
  Request request = request_of(make_problem(make_mask("full"), {4, 1024}, {1, 1024}, 1, 1));
  const auto analyzed = [&](Ticks reduce, const char* schedule) {
    request.model.timing = {.compute = 1, .reduce = reduce};
    request.schedule = schedules::select(schedule);
    return analyze(select("q-stationary"), request).makespan;
  };
  constexpr Ticks kLong = Ticks{1} << 46;
  CHECK(analyzed(kLong, "spt") == 4 * (1 + 2048 * kLong));
  CHECK_THROWS_AS(analyzed(2 * kLong, "spt"), Error);
  request.schedule.reset();
  CHECK_THROWS_AS(analyze(select("q-stationary"), request), Error);
}

TEST_CASE("a group's Q tiles are too many for one side of a mirrored problem, or its tiles are") {
  const auto refused = [](std::int64_t q_tiles, std::int64_t kv_tiles, std::int64_t heads) {
    const Problem problem =
        make_problem(parse_mask("sliding:left=0,right=0"), {q_tiles, kv_tiles}, {}, heads, 4,
                     {.heads_kv = 1, .span = 1, .combine = Combine::partials});
    CHECK_THROWS_WITH(plan(select("q-stationary"), request_of(problem)),
                      "q-stationary: the Q tiles of a group are too many");
  };
  refused(4096, 2, 512);
  refused(256, 512, 4096);
}

TEST_CASE("a comparison takes 2^25 tasks and chains at most") {
  const auto compared = [](std::int64_t heads) {
    return compare({.request = request_of(make_problem(make_mask("full"), {15, 1}, {}, heads, 64)),
                    .stop = [] { return true; }});
  };
  constexpr std::int64_t kMost = (std::int64_t{1} << 25) / (15 + 1);
  CHECK(compared(kMost).without_order == kMost / 64 * 15 * 6);
  CHECK_THROWS_WITH(compared(kMost + 1),
                    Catch::Contains("a comparison takes 33554432 tasks and chains at most"));
}

TEST_CASE("numbers that are too large are a limit, not a wrong number") {
  Request request = request_of(make_problem(make_mask("full"), {1, 1}, {}, 1, 1));
  request.model.timing.compute = Ticks{1} << 59;
  CHECK_THROWS_AS(static_cast<void>(analyze(select("two-pass"), request)), Error);
  // Twice the task, of five GEMMs that are whole ticks each, is 2^61 at most, and 2^58 in fifths.
  request.model.timing = {.compute = (Ticks{1} << 60) / 5 * 5, .reduce = 0};
  CHECK_NOTHROW(static_cast<void>(analyze(select("two-pass"), request)));
  request.model.timing.compute = Ticks{1} << 58;
  CHECK_THROWS_AS(static_cast<void>(analyze(select("two-pass"), request)), Error);
  Request wide = request_of(
      make_problem(make_mask("full"), {1 << 20, 1 << 20}, {1 << 20, 1 << 20}, 1 << 20, 1));
  CHECK_THROWS_AS(static_cast<void>(plan(select("ds-store"), wide)), Error);
  CHECK_THROWS_AS(static_cast<void>(plan(select("split:buffers=1048576"), wide)), Error);
}

TEST_CASE("a problem without a token is planned by every design, compared and advised on") {
  const Request request{
      .problem = make_problem(parse_mask("document:lengths=0+0"), {0, 0}, {}, 4, 4),
      .head_dim = 64};
  int planned = 0;
  for (const Design* design : all()) {
    CAPTURE(design->name);
    if (why_unsupported(select(design->name), request)) continue;
    CHECK(analyze(select(design->name), request, {}).makespan == 0);
    ++planned;
  }
  CHECK(planned >= 7);  // all but those that play a schedule
  CHECK_FALSE(compare({.request = request}).rows.empty());
  static_cast<void>(advise({.request = request}));
}

}  // namespace
}  // namespace stagger::designs
