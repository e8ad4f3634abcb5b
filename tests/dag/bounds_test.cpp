#include "dag/bounds.hpp"

#include "dag/packing.hpp"
#include "sim/simulate.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/naive.hpp"
#include "tests/support/random.hpp"

#include <cmath>

namespace stagger::dag {
namespace {

Ticks best_packing(const std::vector<Ticks>& jobs, std::vector<Ticks>& loads, std::size_t next) {
  if (next == jobs.size()) return *std::max_element(loads.begin(), loads.end());
  Ticks best = INT64_MAX;
  for (Ticks& load : loads) {
    load += jobs[next];
    best = std::min(best, best_packing(jobs, loads, next + 1));
    load -= jobs[next];
  }
  return best;
}

TEST_CASE("packing is exact where it says so and never above the optimum") {
  test::Random random(8);
  std::int64_t exact = 0;
  for (int round = 0; round < 1'000; ++round) {
    std::vector<Ticks> jobs(static_cast<std::size_t>(random.between(1, 7)));
    for (Ticks& job : jobs)
      job = random.between(0, 12) * 3;
    const auto machines = static_cast<std::int32_t>(random.between(1, 4));
    std::vector<Ticks> loads(static_cast<std::size_t>(machines), 0);
    const Ticks best = best_packing(jobs, loads, 0);
    const Packing packing = pack(jobs, machines);
    CAPTURE(round, machines);
    REQUIRE(packing.lower <= best);
    REQUIRE(packing.upper >= best);
    if (packing.exact()) REQUIRE(packing.lower == best);
    exact += packing.exact() ? 1 : 0;
  }
  CHECK(exact == 1'000);
}

TEST_CASE("a search that is cut short proves nothing it should not") {
  test::Random random(14);
  std::int64_t open = 0;
  for (int round = 0; round < 1'000; ++round) {
    std::vector<Ticks> jobs(7);
    for (Ticks& job : jobs)
      job = random.between(5, 12);
    std::vector<Ticks> loads(3, 0);
    const Ticks best = best_packing(jobs, loads, 0);
    const Packing packing = pack(jobs, 3, random.between(1, 12));
    CAPTURE(round);
    REQUIRE(packing.lower <= best);
    REQUIRE(packing.upper >= best);
    open += packing.exact() ? 0 : 1;
  }
  CHECK(open > 50);
}

TEST_CASE("a packing is searched no further once it is to stop") {
  std::vector<Ticks> jobs;
  for (Ticks job = 0; job < 30; ++job)
    jobs.push_back(100 + 7 * (job % 13));
  std::int64_t asked = 0;
  const auto packed = [&](std::int64_t stops_at) {
    asked = 0;
    return pack(jobs, 10, 2'000'000, [&] { return ++asked == stops_at; });
  };
  const Packing whole = packed(-1);
  REQUIRE(whole.exact());
  REQUIRE(asked > 3);
  const Packing stopped = packed(3);
  CHECK(asked == 3);
  CHECK(stopped.lower <= whole.lower);
  CHECK(stopped.upper > whole.upper);
}

TEST_CASE("sliding window of 8, n = 32, 8 SMs: work 29 slots, packing 32") {
  const Problem problem = make_problem(parse_mask("sliding:left=7,right=0"), {32, 32}, {}, 1, 8);
  const Bounds bounds = lower_bounds(problem, {.compute = 1, .reduce = 0}, Dispatch::static_);
  CHECK(bounds.all[0].ticks == 29);
  CHECK(bounds.best.ticks == 32);
  CHECK(std::string(bounds.best.by) == "packing");
  CHECK(bounds.degree_rounds == 8);
}

TEST_CASE("prefix-LM of 6, n = 16, 8 SMs: work 19 slots, packing 21") {
  const Problem problem = make_problem(parse_mask("prefix:length=6"), {16, 16}, {}, 1, 8);
  const Bounds bounds = lower_bounds(problem, {.compute = 1, .reduce = 0}, Dispatch::static_);
  CHECK(bounds.all[0].ticks == 19);
  CHECK(bounds.best.ticks == 21);
}

TEST_CASE("many KV tiles over one Q tile are bound by their accumulation") {
  const Problem problem = make_problem(make_mask("full"), {1, 64}, {}, 1, 64);
  const Bounds bounds = lower_bounds(problem, {.compute = 5, .reduce = 1}, Dispatch::static_);
  CHECK(std::string(bounds.best.by) == "accumulation");
  CHECK(bounds.best.ticks == 5 + 64);
}

TEST_CASE("partial tiles count for what they compute") {
  // Chains of 2 full and of 1 full, 2 partial tiles on one SM each.
  const Problem problem = test::tiles_problem({"ff.", "fpp"}, 1, 2);
  const auto bound = [&](const Timing& timing) {
    return lower_bounds(problem, timing, Dispatch::static_).best.ticks;
  };
  CHECK(bound({.compute = 5, .reduce = 1}) == 3 * 6);
  CHECK(bound({.compute = 5, .compute_partial = 7, .reduce = 1}) == 6 + 2 * 8);
  CHECK(bound({.compute = 5, .compute_partial = 2, .reduce = 1}) == 2 * 6);
  // Overlap: the first task computes alone, best a partial one; then 4 a task, 5 the full one.
  CHECK(bound({.model = Model::overlap, .compute = 5, .compute_partial = 2, .reduce = 4}) ==
        2 + 4 + 5 + 4);
}

TEST_CASE("no table at all beats the bounds, and some meets them") {
  test::Random random(10);
  std::int64_t met = 0;
  std::int64_t problems = 0;
  std::int64_t mixed = 0;
  while (problems < 60) {
    const Problem problem = test::any_problem(random, 3);
    if (problem.tasks() == 0 || problem.tasks() > 5) continue;
    ++problems;
    Timing timing = test::random_timing(random, problem);
    timing.release = Release::immediate;
    const Ticks optimum = test::naive_optimum(problem, timing);
    const Ticks bound = lower_bounds(problem, timing, Dispatch::static_).best.ticks;
    CAPTURE(problems, problem.kv_tiles(), problem.q_tiles(), problem.heads, problem.sms,
            timing.model == Model::overlap, timing.compute, timing.longest_compute(),
            timing.shortest_compute(), timing.reduce, timing.latency, timing.launch,
            timing.epilogue, timing.residency);
    REQUIRE(bound <= optimum);
    met += bound == optimum ? 1 : 0;
    mixed += timing.uniform() ? 0 : 1;
  }
  CHECK(met > 30);
  CHECK(mixed > 10);
}

TEST_CASE("random tables never beat the bounds of their dispatch") {
  test::Random random(12);
  for (int round = 0; round < 3'000; ++round) {
    const Problem problem = test::any_problem(random, 5);
    const Dispatch dispatch = random.chance(2) ? Dispatch::static_ : Dispatch::in_order;
    const Table table = test::random_live_table(random, problem, dispatch);
    const Timing timing = test::random_timing(random, problem);
    const sim::Simulation simulation = sim::simulate(table, timing);
    if (!simulation.complete) continue;
    CAPTURE(round);
    REQUIRE(lower_bounds(problem, timing, dispatch).best.ticks <= simulation.makespan);
  }
}

TEST_CASE("what whole chains of a group cost in packing, on real models and 132 SMs") {
  struct Row {
    const char* mask;
    std::int64_t tiles, heads, heads_kv;
    double one, group;  // longest first beyond the SMs' share, per cent
  };
  const Row rows[] = {{"causal", 32, 32, 8, 0.8, 0.0},   {"causal", 64, 32, 8, 0.2, 0.7},
                      {"causal", 128, 32, 8, 0.1, 0.5},  {"causal", 256, 32, 8, 0.0, 0.3},
                      {"full", 64, 32, 8, 3.1, 3.1},     {"full", 256, 32, 8, 1.5, 3.1},
                      {"causal", 64, 28, 4, 0.2, 1.5},   {"causal", 128, 28, 4, 0.0, 1.1},
                      {"causal", 256, 28, 4, 0.0, 0.6},  {"causal", 64, 8, 1, 0.7, 306.2},
                      {"causal", 256, 8, 1, 0.3, 2.7},   {"full", 64, 8, 1, 3.1, 106.3},
                      {"causal", 8, 16, 2, 83.3, 1366.7}};
  for (const auto& [mask, tiles, heads, heads_kv, one, group] : rows) {
    CAPTURE(mask, tiles, heads, heads_kv);
    for (const auto& [span, expected] :
         {std::pair{std::int64_t{1}, one}, std::pair{heads / heads_kv, group}}) {
      const Problem problem = make_problem(make_mask(mask), {tiles, tiles}, {}, heads, 132,
                                           {.heads_kv = heads_kv, .span = span});
      std::vector<Ticks> chains;
      for (KvTile kv{0}; kv.value < problem.kv_tiles(); ++kv)
        chains.insert(chains.end(), at(problem.parts()), problem.chain_length(Part{0}, kv));
      const auto longest_first = static_cast<double>(pack(chains, 132, 0).upper);
      const double share = static_cast<double>(problem.tasks()) / 132;
      CHECK(std::abs(100 * (longest_first / share - 1) - expected) < 0.06);
      if (tiles > 32) continue;
      const Bounds bounds = lower_bounds(problem, {.compute = 1, .reduce = 0}, Dispatch::static_);
      CHECK(static_cast<double>(bounds.best.ticks) <= longest_first);
      CHECK(bounds.all[1].ticks == chains.front());
    }
  }
}

TEST_CASE("where there is nothing to do, that is the bound, and it is said") {
  for (const Dispatch dispatch : {Dispatch::static_, Dispatch::in_order}) {
    const Bounds none = lower_bounds(test::tiles_problem({"..", ".."}, 3, 2), {}, dispatch);
    CHECK(none.best.ticks == 0);
    CHECK(none.best.by == std::string("work"));
    REQUIRE(none.all.size() == 1);
    CHECK(none.all.front().ticks == 0);
    CHECK(none.all.front().by == std::string("work"));
    CHECK(std::string(none.best.why) == "there is nothing to do");
  }
}

}  // namespace
}  // namespace stagger::dag
