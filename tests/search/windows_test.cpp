#include "schedules/search/windows.hpp"

#include "dag/bounds.hpp"
#include "dag/verify.hpp"
#include "schedules/schedule.hpp"
#include "schedules/search/evaluate.hpp"
#include "sim/simulate.hpp"
#include "tests/sim/cost.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace stagger::search {
namespace {

/// Whether every lane works on its windows one after the other.
bool in_windows(const Table& table, std::int32_t heads) {
  for (Lane lane{0}; lane.value < table.lanes(); ++lane) {
    const auto slots = table.lane(lane);
    const bool sorted =
        std::is_sorted(slots.begin(), slots.end(), [&](const Slot& a, const Slot& b) {
          return a.task.head.value / heads < b.task.head.value / heads;
        });
    if (!sorted) return false;
  }
  return true;
}

/// The most windows that are between their first reduction and their last one at a time.
std::int64_t windows_in_flight(const Table& table, const Timing& timing, std::int32_t heads) {
  const sim::Simulation played = sim::simulate(table, timing);
  struct Span {
    Ticks begin = INT64_MAX;
    Ticks end = 0;
  };
  std::vector<Span> spans(static_cast<std::size_t>((table.problem.heads + heads - 1) / heads));
  for (std::size_t slot = 0; slot < table.slots.size(); ++slot) {
    Span& span = spans[static_cast<std::size_t>(table.slots[slot].task.head.value / heads)];
    span.begin = std::min(span.begin, played.reduce_start[slot]);
    span.end = std::max(span.end, played.reduce_start[slot] + timing.reduce);
  }
  std::int64_t most = 0;
  for (const Span& at : spans) {
    most = std::max<std::int64_t>(most, std::count_if(spans.begin(), spans.end(), [&](auto& span) {
                                    return span.begin <= at.begin && at.begin < span.end;
                                  }));
  }
  return most;
}

TEST_CASE("windows make whole tables that run in every timing model, window after window") {
  test::Random random(test::seed(81));
  for (int round = 0; round < 500; ++round) {
    const Problem problem = test::any_problem(random, 6);
    const Timing timing = test::random_timing(random, problem);
    const auto heads = static_cast<std::int32_t>(random.between(1, 5));
    CAPTURE(round, heads, problem.heads, problem.sms, timing.residency);
    const Table table = windowed_table(problem, timing, {.heads = heads}).table;
    REQUIRE(dag::verify(table, timing).verdict == dag::Verdict::ok);
    REQUIRE(sim::simulate(table, timing).complete);
    REQUIRE(table.lanes() == problem.sms);
    REQUIRE(table.problem.sms == problem.sms);
    REQUIRE(in_windows(table, heads));
  }
}

TEST_CASE("a free SM takes the longest chain left of the first window that has one") {
  // Causal, 2 KV tiles, on 2 SMs, a digit is a task's head: 0 has a chain of 2 and one of 1.
  //   SM 0  0 0 1 2 2
  //   SM 1  0 1 1 2
  const Problem problem = make_problem(make_mask("causal"), {2, 2}, {}, 3, 2);
  const Table table = windowed_table(problem, {}, {.heads = 1}).table;
  const auto heads_of = [&](std::int32_t lane) {
    std::vector<std::int32_t> heads;
    for (const Slot& slot : table.lane(Lane{lane}))
      heads.push_back(slot.task.head.value);
    return heads;
  };
  CHECK(heads_of(0) == std::vector<std::int32_t>{0, 0, 1, 2, 2});
  CHECK(heads_of(1) == std::vector<std::int32_t>{0, 1, 1, 2});
  CHECK(sim::simulate(table, {}).makespan == 30);
}

TEST_CASE("window sizes rise by halves to the number of heads") {
  CHECK(window_sizes(1) == std::vector<std::int32_t>{1});
  CHECK(window_sizes(2) == std::vector<std::int32_t>{1, 2});
  CHECK(window_sizes(16) == std::vector<std::int32_t>{1, 2, 3, 4, 6, 8, 12, 16});
  CHECK(window_sizes(20) == std::vector<std::int32_t>{1, 2, 3, 4, 6, 8, 12, 16, 20});
}

TEST_CASE("the window is the one that the memory likes best") {
  const Problem problem = make_problem(make_mask("causal"), {32, 32}, {}, 64, 32);
  Timing timing{.model = Model::overlap, .compute = 10, .reduce = 4, .latency = 3};
  const auto cost = [&](std::int32_t heads) {
    return sim::cost_by_plays(windowed_table(problem, timing, {.heads = heads}).table, timing);
  };
  const Ticks without = cost(64);
  timing.memory = Memory{.l2 = 32 * 12 * 8, .rate = 100, .tile = {8, 8, 8, 8}};
  for (const Ticks spread : {0, 2}) {
    timing.memory->spread = spread;
    REQUIRE(cost(64) > without);
    const Ticks chosen = cost(0);
    CHECK(chosen < cost(64));
    for (const std::int32_t size : window_sizes(64)) {
      CAPTURE(spread, size);
      REQUIRE(chosen <= cost(size) + cost(size) / 2'000);
    }
  }
}

TEST_CASE("windows are the same for any number of threads, and the first is made come what may") {
  const Problem problem = make_problem(make_mask("causal"), {16, 16}, {}, 9, 7);
  Timing timing{.model = Model::overlap, .compute = 10, .reduce = 4, .latency = 3};
  timing.memory = Memory{.l2 = 300, .rate = 100, .tile = {8, 8, 8, 8}, .spread = 2};
  const WindowedTable alone = windowed_table(problem, timing, {.threads = 1});
  for (const int threads : {0, 2, 3, 100}) {
    const WindowedTable found = windowed_table(problem, timing, {.threads = threads});
    CAPTURE(threads);
    CHECK(found.heads == alone.heads);
    CHECK(found.table.slots == alone.table.slots);
    CHECK(found.table.lane_begin == alone.table.lane_begin);
    // Of the first size at least the first Q order is there.
    const WindowedTable stopped =
        windowed_table(problem, timing, {.threads = threads, .stop = [] { return true; }});
    CHECK(stopped.heads == window_sizes(9).front());
    CHECK(static_cast<int>(stopped.q) == static_cast<int>(QOrder::descending));
    CHECK(dag::verify(stopped.table, timing).verdict == dag::Verdict::ok);
  }
}

TEST_CASE("of the three windows that one draw likes best the one that others like best is taken") {
  test::Random random(test::seed(84));
  int others = 0;
  for (int round = 0; round < 40; ++round) {
    const std::int64_t n = random.between(6, 12);
    const Problem problem = make_problem(make_mask("causal"), {n, n}, {}, 12, n - 1);
    Timing timing{.model = Model::overlap, .compute = 10, .reduce = 4, .latency = 3};
    timing.memory = Memory{.l2 = 8 * n * random.between(1, 12),
                           .rate = 100,
                           .tile = {8, 8, 8, 8},
                           .spread = random.between(3, 9)};
    struct Size {
      Ticks own;
      std::int32_t heads;
      Ticks cost;
    };
    std::vector<Size> sizes;
    for (const std::int32_t heads : window_sizes(12)) {
      const Table table =
          windowed_table(problem, timing, {.heads = heads, .q = QOrder::descending}).table;
      sizes.push_back({sim::cost_of_play(table, timing), heads, sim::cost_by_plays(table, timing)});
    }
    std::ranges::sort(sizes, [](const Size& one, const Size& other) {
      return std::pair(one.own, one.heads) < std::pair(other.own, other.heads);
    });
    const std::int32_t lucky = sizes.front().heads;
    sizes.resize(3);
    const Size best = *std::ranges::min_element(sizes, [](const Size& one, const Size& other) {
      return std::pair(one.cost, one.heads) < std::pair(other.cost, other.heads);
    });
    CAPTURE(round, n, timing.memory->l2, timing.memory->spread);
    REQUIRE(windowed_table(problem, timing, {.q = QOrder::descending}).heads == best.heads);
    others += best.heads != lucky ? 1 : 0;
  }
  CHECK(others > 3);
}

/// The window and the Q order that the header promises, from tables of one of each.
class Choice {
 public:
  Choice(const Problem& problem, const Timing& timing) : problem_(problem), timing_(timing) {
    std::vector<std::pair<Ticks, std::int32_t>> sizes;
    for (const std::int32_t size : window_sizes(problem.heads)) {
      sizes.emplace_back(makespan(size, QOrder::descending), size);
      consider(size, QOrder::descending);
    }
    std::sort(sizes.begin(), sizes.end());
    sizes.resize(std::min<std::size_t>(sizes.size(), 2));
    for (const auto& [_, size] : sizes)
      consider(size, QOrder::ascending);
    const Ticks untold = least / 2'000;
    for (const auto& [_, size] : sizes) {
      const Ticks turns = makespan(size, QOrder::cyclic);
      const Ticks most = q == QOrder::cyclic ? least - 1 : least + untold;
      later += turns == most && turns > least ? 1 : 0;
      too_late += q != QOrder::cyclic && turns == most + 1 ? 1 : 0;
      if (turns <= most) take(size, QOrder::cyclic, turns);
    }
  }

  std::int32_t heads = 0;
  QOrder q = QOrder::descending;
  Ticks least = -1;
  int later = 0;     ///< cyclic ones that are as late as they may be
  int too_late = 0;  ///< by a tick

 private:
  [[nodiscard]] Ticks makespan(std::int32_t size, QOrder order) const {
    const Table table = windowed_table(problem_, timing_, {.heads = size, .q = order}).table;
    return sim::simulate(table, timing_).makespan;
  }
  void consider(std::int32_t size, QOrder order) {
    const Ticks takes = makespan(size, order);
    if (least < 0 || takes < least) take(size, order, takes);
  }
  void take(std::int32_t size, QOrder order, Ticks takes) {
    heads = size;
    q = order;
    least = takes;
  }

  const Problem& problem_;
  const Timing& timing_;
};

/// Holds what is found in phases that are nearly as long as each other against the promise.
void check_choice(const Problem& problem, int& later, int& too_late) {
  for (const Ticks compute : {300, 700, 1'100}) {
    for (const Ticks latency : {0, 1, 2, 3}) {
      const Timing timing{.model = Model::overlap,
                          .compute = compute,
                          .reduce = compute - latency,
                          .latency = latency};
      const Choice choice(problem, timing);
      const WindowedTable found = windowed_table(problem, timing, {});
      CAPTURE(problem.kv_tiles(), problem.heads, problem.sms, compute, latency);
      CHECK(found.heads == choice.heads);
      CHECK(static_cast<int>(found.q) == static_cast<int>(choice.q));
      CHECK(sim::simulate(found.table, timing).makespan == choice.least);
      later += choice.later;
      too_late += choice.too_late;
    }
  }
}

TEST_CASE("of windows and Q orders the best is taken, or the one that goes round if it is near") {
  int later = 0;
  int too_late = 0;
  for (std::int64_t n = 3; n <= 7; ++n) {
    for (std::int64_t heads = 1; heads <= 4; ++heads) {
      for (const std::int64_t sms : {n - 1, n}) {
        const Problem problem = make_problem(make_mask("causal"), {n, n}, {}, heads, sms);
        check_choice(problem, later, too_late);
      }
    }
  }
  CHECK(later > 0);
  CHECK(too_late > 0);
}

TEST_CASE("where nothing is to be gained the tiles of a head go round") {
  // Equal chains on as many SMs: any Latin square of Q tiles takes the bound's time.
  const Problem problem = make_problem(make_mask("full"), {8, 8}, {}, 3, 8);
  const Timing timing{.model = Model::overlap, .compute = 10, .reduce = 4, .latency = 3};
  const Table table = windowed_table(problem, timing, {}).table;
  REQUIRE(table.slots.size() == 3 * 64);
  for (Lane lane{0}; lane.value < 8; ++lane) {
    for (std::int64_t slot = table.begin_of(lane); slot < table.end_of(lane); ++slot) {
      if (table.begins_chain(lane, slot)) continue;
      REQUIRE(table.slots[slot].task.q.value == (table.slots[slot - 1].task.q.value + 1) % 8);
    }
  }
}

TEST_CASE("on 132 SMs windows cost little, and no more than two are in flight") {
  for (const auto& [kv_tiles, heads, window] :
       {std::tuple{16, 64, 16}, {32, 32, 8}, {32, 40, 16}, {64, 16, 4}}) {
    const Problem problem = make_problem(make_mask("causal"), {kv_tiles * 2, kv_tiles * 2},
                                         {.q = 1, .kv = 2}, heads, 132);
    const Timing timing{.model = Model::overlap, .compute = 10, .reduce = 4, .latency = 3};
    CAPTURE(kv_tiles, heads, window);
    const Table table = windowed_table(problem, timing, {.heads = window}).table;
    REQUIRE(dag::verify(table, timing).verdict == dag::Verdict::ok);
    const Ticks makespan = sim::simulate(table, timing).makespan;
    const Ticks bound = dag::lower_bounds(problem, timing, Dispatch::static_).best.ticks;
    CAPTURE(makespan, bound);
    CHECK(makespan <= bound + bound / 20);
    CHECK(in_windows(table, window));
    CHECK(windows_in_flight(table, timing, window) <= 2);
  }
}

}  // namespace
}  // namespace stagger::search
