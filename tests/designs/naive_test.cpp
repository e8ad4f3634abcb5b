// Designs whose lanes wait for nobody, played again by code that shares none: a clock that steps
// through time, lanes told from the mask tile by tile. A split is also played as the table that it
// is, with a head for each of its targets, by the simulator and tick by tick.

#include "tests/support/naive.hpp"

#include "sim/simulate.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/masks.hpp"
#include "tests/support/random.hpp"
#include "workbench/designs/analysis.hpp"
#include "workbench/designs/split.hpp"

#include <algorithm>
#include <deque>
#include <string>
#include <vector>

namespace stagger::designs {
namespace {

/// The phases of one lane's SM in fifths of a tick, one after the other.
using Work = std::vector<Ticks>;

/// Steps through time: a free SM takes the next lane, each works one unit at a time.
Ticks stepped(const std::vector<Work>& lanes, std::int32_t sms) {
  std::deque<Ticks> waiting;
  for (const Work& work : lanes) {
    Ticks all = 0;
    for (const Ticks phase : work)
      all += phase;
    waiting.push_back(all);
  }
  std::vector<Ticks> left(static_cast<std::size_t>(sms), 0);
  Ticks now = 0;
  for (;; ++now) {
    for (Ticks& of_sm : left) {
      while (of_sm == 0 && !waiting.empty()) {
        of_sm = waiting.front();
        waiting.pop_front();
      }
    }
    if (std::ranges::all_of(left, [](Ticks of_sm) { return of_sm == 0; })) return now;
    for (Ticks& of_sm : left)
      of_sm -= of_sm > 0 ? 1 : 0;
  }
}

struct Lengthy {
  const Problem& problem;
  const Timing& timing;

  [[nodiscard]] Ticks fifths(std::int32_t kv, std::int32_t q, int gemms) const {
    const TileKind kind = problem.common_grid().kind({kv}, {q});
    if (kind == TileKind::empty) return -1;
    const Ticks whole = kind == TileKind::partial && timing.compute_partial
                            ? *timing.compute_partial
                            : timing.compute;
    return whole * gemms;
  }
  /// A KV tile's chain without reductions, as often as there are heads.
  [[nodiscard]] Ticks kv_chain(std::int32_t kv, int gemms, int heads = 1) const {
    Ticks all = 0;
    int live = 0;
    for (std::int32_t q = 0; q < problem.q_tiles(); ++q) {
      const Ticks takes = fifths(kv, q, gemms);
      if (takes < 0) continue;
      all += takes;
      ++live;
    }
    return live == 0 ? 0 : heads * all + 5 * (timing.launch + timing.epilogue);
  }
  [[nodiscard]] Ticks q_chain(std::int32_t q, int gemms) const {
    Ticks all = 0;
    int live = 0;
    for (std::int32_t kv = 0; kv < problem.kv_tiles(); ++kv) {
      const Ticks takes = fifths(kv, q, gemms);
      if (takes < 0) continue;
      all += takes;
      ++live;
    }
    return live == 0 ? 0 : all + 5 * (timing.launch + timing.epilogue);
  }
};

/// All KV tiles or all Q tiles of all heads, a lane each; `longest` first where tasks are counted.
std::vector<Work> one_kind(const Lengthy& times, bool kv, int gemms, int group, bool longest) {
  struct One {
    std::int32_t tasks;
    Ticks takes;
  };
  std::vector<One> all;
  for (std::int32_t head = 0; head < times.problem.heads; head += group) {
    const std::int32_t tiles = kv ? times.problem.kv_tiles() : times.problem.q_tiles();
    for (std::int32_t tile = 0; tile < tiles; ++tile) {
      std::int32_t tasks = 0;
      for (std::int32_t other = 0;
           other < (kv ? times.problem.q_tiles() : times.problem.kv_tiles()); ++other) {
        tasks += (kv ? times.problem.common_grid().live({tile}, {other})
                     : times.problem.common_grid().live({other}, {tile}))
                     ? 1
                     : 0;
      }
      all.push_back({tasks, kv ? times.kv_chain(tile, gemms, group) : times.q_chain(tile, gemms)});
    }
  }
  if (longest) {
    std::ranges::stable_sort(
        all, [](const One& left, const One& right) { return left.tasks > right.tasks; });
  }
  std::vector<Work> lanes;
  for (const One& one : all)
    lanes.push_back({one.takes});
  return lanes;
}

Ticks rounded_up(Ticks fifths) {
  return (fifths + 4) / 5;
}

/// Every small mask, some SMs, some durations.
template <class Check>
int each_small(Check check) {
  int seen = 0;
  test::Random random(test::seed(20));
  for (Problem problem : test::every_small_mask()) {
    problem.sms = static_cast<std::int32_t>(random.between(1, 5));
    const std::int64_t heads = random.between(1, 3);
    problem.heads = problem.heads_kv = static_cast<std::int32_t>(heads);
    problem.span = 1;
    problem.combine = Combine::none;
    Timing timing{.compute = random.between(1, 7),
                  .reduce = random.between(0, 3),
                  .launch = random.between(0, 2),
                  .epilogue = random.between(0, 2)};
    if (random.chance(2)) timing.compute_partial = random.between(1, 9);
    if (random.chance(2)) timing.model = Model::overlap;
    CAPTURE(describe(problem), timing.compute, timing.reduce, timing.launch, timing.epilogue,
            timing.compute_partial.value_or(-1), model_name(timing.model));
    check(problem, timing);
    ++seen;
  }
  return seen;
}

Ticks makespan_of(const char* design, const Problem& problem, const Timing& timing) {
  Request request{.problem = problem};
  request.model.timing = timing;
  return analyze(select(design), request).makespan;
}

TEST_CASE("two passes take what a clock that steps through them takes") {
  const int seen = each_small([](const Problem& problem, const Timing& timing) {
    const Lengthy times{problem, timing};
    std::vector<Work> programs;
    for (std::int32_t head = 0; head < problem.heads; ++head) {
      for (std::int32_t place = 0; place < std::max(problem.kv_tiles(), problem.q_tiles());
           ++place) {
        Work& work = programs.emplace_back();
        if (place < problem.kv_tiles()) work.push_back(times.kv_chain(place, 4));
        if (place < problem.q_tiles()) work.push_back(times.q_chain(place, 3));
      }
    }
    CHECK(makespan_of("two-pass", problem, timing) == rounded_up(stepped(programs, problem.sms)));
    CHECK(makespan_of("two-pass:launches=2", problem, timing) ==
          rounded_up(stepped(one_kind(times, true, 4, 1, true), problem.sms) +
                     stepped(one_kind(times, false, 3, 1, true), problem.sms)));
    CHECK(makespan_of("opentau", problem, timing) ==
          rounded_up(stepped(one_kind(times, false, 3, 1, false), problem.sms) +
                     stepped(one_kind(times, true, 4, 1, false), problem.sms)));
    CHECK(makespan_of("ds-store", problem, timing) ==
          rounded_up(stepped(one_kind(times, true, 4, 1, false), problem.sms) +
                     stepped(one_kind(times, false, 1, 1, true), problem.sms)));
  });
  CHECK(seen > 20);
}

TEST_CASE("heads that share K and V are one chain of the pass that keeps them") {
  const Problem problem =
      make_problem(make_mask("causal"), {7, 7}, {}, 6, 4, {.heads_kv = 2, .span = 3});
  const Timing timing{.compute = 3, .launch = 2, .epilogue = 1};
  const Lengthy times{problem, timing};
  CHECK(makespan_of("two-pass:launches=2", problem, timing) ==
        rounded_up(stepped(one_kind(times, true, 4, 3, true), 4) +
                   stepped(one_kind(times, false, 3, 1, true), 4)));
}

/// A split as a table: a head for each of its targets, so that no rank waits for another lane. Q
/// tiles are taken downwards, or upwards.
Table targets_table(const Problem& problem, std::int64_t buffers, bool upwards = false) {
  Table table{.name = "targets", .problem = problem, .dispatch = Dispatch::in_order};
  table.problem.heads = table.problem.heads_kv = static_cast<std::int32_t>(problem.heads * buffers);
  for (std::int32_t target = 0; target < table.problem.heads; ++target) {
    std::vector<std::int32_t> ranks(static_cast<std::size_t>(problem.q_tiles()), 0);
    for (auto kv = static_cast<std::int32_t>(target % buffers); kv < problem.kv_tiles();
         kv += static_cast<std::int32_t>(buffers)) {
      for (std::int32_t place = 0; place < problem.q_tiles(); ++place) {
        const std::int32_t q = upwards ? place : problem.q_tiles() - 1 - place;
        if (!problem.common_grid().live({kv}, {q})) continue;
        table.slots.push_back({{{target}, {kv}, {q}}, ranks[static_cast<std::size_t>(q)]++});
      }
    }
    table.end_lane();
  }
  return table;
}

TEST_CASE("a split is a table without waits") {
  const int seen = each_small([](const Problem& problem, const Timing& timing) {
    for (const std::int64_t buffers : {1, 2, 3}) {
      CAPTURE(buffers);
      const Table table = targets_table(problem, buffers);
      const sim::Simulation simulation = sim::simulate(table, timing);
      REQUIRE(simulation.complete);
      const std::string design = "split:buffers=" + std::to_string(buffers);
      CHECK(makespan_of(design.c_str(), problem, timing) == simulation.makespan);
      if (const auto naive = test::naive_makespan(table, timing)) {
        CHECK(simulation.makespan == *naive);
      }
    }
    const std::int64_t flash = (problem.sms + problem.heads - 1) / problem.heads;
    CHECK(makespan_of("split", problem, timing) ==
          sim::simulate(targets_table(problem, flash), timing).makespan);
  });
  CHECK(seen > 20);
}

TEST_CASE("without an order every chain is a lane of its own") {
  each_small([](const Problem& problem, const Timing& timing) {
    const std::int64_t all = std::max(problem.kv_tiles(), 1);
    workbench::TimeModel model;
    model.timing = timing;
    CHECK(without_order(problem, model) ==
          sim::simulate(targets_table(problem, all, true), timing).makespan);
  });
}

TEST_CASE("a timeline has every task of every pass, and nothing overlaps on an SM") {
  each_small([](const Problem& problem, const Timing& timing) {
    Request request{.problem = problem};
    request.model.timing = timing;
    for (const auto& [name, times] : {std::pair("two-pass", 2), std::pair("split", 1)}) {
      const Analysis analysis = analyze(select(name), request);
      const Timeline timeline = timeline_of(analysis, problem);
      std::int64_t computed = 0;
      Ticks before = 0;
      Sm sm{-1};
      for (const Interval& interval : timeline.intervals) {
        if (interval.phase != Phase::compute) continue;
        ++computed;
        if (interval.sm == sm) CHECK(interval.start >= before);
        sm = interval.sm;
        before = interval.end;
      }
      CHECK(computed == times * problem.tasks());
      CHECK((timeline.makespan + analysis.plan.units - 1) / analysis.plan.units ==
            analysis.makespan);
    }
  });
}

}  // namespace
}  // namespace stagger::designs
