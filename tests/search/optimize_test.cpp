#include "schedules/search/optimize.hpp"

#include "core/error.hpp"
#include "dag/bounds.hpp"
#include "dag/slot_bounds.hpp"
#include "dag/verify.hpp"
#include "schedules/schedule.hpp"
#include "schedules/search/evaluate.hpp"
#include "schedules/search/sat.hpp"
#include "schedules/search/windows.hpp"
#include "sim/simulate.hpp"
#include "tests/sim/cost.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/naive.hpp"
#include "tests/support/random.hpp"
#include "tests/support/skip.hpp"

namespace stagger::search {
namespace {

SearchOptions options_of(std::int64_t effort, int threads = 1) {
  SearchOptions options;
  options.effort = effort;
  options.threads = threads;
  options.stop = [] { return false; };
  return options;
}

Optimum optimized(const Problem& problem, const Timing& timing, const SearchOptions& options) {
  const dag::Bounds bounds = dag::lower_bounds(problem, timing, Dispatch::static_);
  return optimize(problem, {.timing = timing}, {bounds.best.ticks, bounds.best.by}, std::nullopt,
                  options);
}

TEST_CASE("what is called optimal is what trying every table finds") {
  test::Random random(test::seed(67));
  std::int64_t searched = 0;
  while (searched < 150) {
    const Problem problem = test::any_problem(random, 3);
    if (problem.tasks() > 5) continue;
    ++searched;
    const Timing timing{.compute = random.between(1, 5), .reduce = random.between(0, 5)};
    CAPTURE(searched, timing.compute, timing.reduce);
    const Optimum optimum = optimized(problem, timing, options_of(20));
    REQUIRE(optimum.proof != ProofKind::none);
    REQUIRE(optimum.best->makespan ==
            (problem.tasks() == 0 ? 0 : test::naive_optimum(problem, timing)));
  }
}

/// Whether a small problem's optimum is proved, which no table of all may refute.
bool is_proved_rightly(const Problem& problem, const Timing& timing) {
  const Optimum optimum = optimized(problem, timing, options_of(20));
  const Ticks least = test::naive_optimum(problem, timing);
  REQUIRE(optimum.best->makespan >= least);
  REQUIRE(optimum.lower_bound.ticks <= least);
  return optimum.proof != ProofKind::none;
}

TEST_CASE("what is called optimal of tasks that are steps is too, by whatever proves it") {
  test::Random random(test::seed(305));
  int proved = 0;
  for (int searched = 0; searched < 60;) {
    const Problem problem = test::any_problem(random, 3);
    if (problem.tasks() == 0 || problem.tasks() > 5) continue;
    ++searched;
    const Timing timing{.compute = random.between(1, 5),
                        .reduce = random.between(0, 5),
                        .steps = static_cast<std::int32_t>(random.between(2, 3))};
    CAPTURE(searched, timing.compute, timing.reduce, timing.steps);
    proved += is_proved_rightly(problem, timing) ? 1 : 0;
  }
  CHECK(proved > 20);
}

TEST_CASE("what is called optimal where a KV tile is cut is too, by whatever proves it") {
  test::Random random(test::seed(307));
  int proved = 0;
  for (int searched = 0; searched < 60;) {
    const Problem problem =
        make_problem(make_mask(random.chance(2) ? "full" : "causal"),
                     {.q = random.between(1, 3), .kv = 2 * random.between(0, 1) + 1},
                     {.q = 1, .kv = 2}, random.between(1, 2), random.between(1, 3));
    if (problem.tasks() == 0 || problem.tasks() > 5) continue;
    ++searched;
    Timing timing{.compute = random.between(1, 9), .reduce = random.between(1, 5)};
    timing.compute_partial = random.between(1, 12);
    timing.cut_partial = true;
    CAPTURE(searched, timing.compute, *timing.compute_partial, timing.reduce);
    proved += is_proved_rightly(problem, timing) ? 1 : 0;
  }
  CHECK(proved > 20);
}

TEST_CASE("in the slot model too") {
  if (test::skipped_without_sat_solver()) return;
  test::Random random(test::seed(68));
  std::int64_t searched = 0;
  while (searched < 150) {
    const Problem problem = test::any_problem(random, 4);
    if (problem.tasks() == 0 || problem.tasks() > 8) continue;
    ++searched;
    CAPTURE(searched);
    const dag::Bounds bounds = dag::slot_bounds(problem);
    const Optimum optimum =
        optimize(problem, {.timing = {}, .slot_model = true}, {bounds.best.ticks, bounds.best.by},
                 std::nullopt, options_of(5));
    REQUIRE(optimum.proof != ProofKind::none);
    REQUIRE_FALSE(optimum.proof_written);
    REQUIRE(rounds_of(optimum.best->table) == optimum.best->makespan);
    REQUIRE(optimum.best->makespan == test::naive_round_optimum(problem));
  }
}

TEST_CASE("every option of the model gives a whole table that runs, between bound and schedules") {
  test::Random random(test::seed(69));
  for (int round = 0; round < 500; ++round) {
    const Problem problem = test::any_problem(random, 6);
    const Timing timing = test::random_timing(random, problem);
    CAPTURE(round);
    const Optimum optimum = optimized(problem, timing, options_of(1));
    REQUIRE(optimum.best.has_value());
    const Table& table = optimum.best->table;
    REQUIRE(dag::verify(table, timing).verdict == dag::Verdict::ok);
    REQUIRE(sim::simulate(table, timing).makespan == optimum.best->makespan);
    REQUIRE(optimum.lower_bound.ticks <= optimum.best->makespan);
  }
}

TEST_CASE("chains of several heads are searched head by head, and beat the windows") {
  test::Random random(test::seed(171));
  std::int64_t shorter = 0;
  std::int64_t searched = 0;
  for (int round = 0; round < 120; ++round) {
    const Problem problem = test::with_random_groups(random, test::any_problem(random, 4), 4);
    if (problem.span == 1 || problem.tasks() == 0) continue;
    Timing timing = test::random_timing(random, problem);
    if (round % 2 == 1) {
      timing.memory =
          Memory{.l2 = 96, .rate = 3, .tile = {.q = 8, .dq = 8, .kv = 16, .gradient = 16}};
    }
    CAPTURE(round, problem.heads, problem.heads_kv, problem.span, problem.sms);
    const Optimum optimum = optimized(problem, timing, options_of(1));
    REQUIRE(optimum.best.has_value());
    const Table& table = optimum.best->table;
    REQUIRE(dag::verify(table, timing).verdict == dag::Verdict::ok);
    REQUIRE(sim::cost_by_plays(table, timing) == optimum.best->cost);
    REQUIRE(optimum.best->makespan >= optimum.lower_bound.ticks);
    for (std::int64_t slot = 1; slot < std::ssize(table.slots); ++slot) {
      const Task& before = table.slots[slot - 1].task;
      const Task& task = table.slots[slot].task;
      const bool goes_on = problem.same_chain(before, task) && before.head != task.head;
      if (goes_on) REQUIRE(task.head.value == before.head.value + 1);
    }
    const Table windows = windowed_table(problem, timing, {}).table;
    const Ticks cost = sim::cost_by_plays(windows, timing);
    const bool proved = optimum.proof != ProofKind::none;  // then no window is looked for
    REQUIRE((proved || cost < 0 || optimum.best->cost <= cost));
    shorter += optimum.best->cost < cost ? 1 : 0;
    ++searched;
    const Optimum again = optimized(problem, timing, options_of(1, 3));
    REQUIRE(again.best->table.slots == table.slots);
  }
  CHECK(searched > 15);
  CHECK(shorter > 0);
}

TEST_CASE("the bound of searches that were given none is below every table") {
  const auto ticks = [](const std::vector<std::string>& rows, std::int32_t heads, std::int32_t sms,
                        const Timing& timing) {
    const ProvenBound bound = work_bound(test::tiles_problem(rows, heads, sms), timing);
    CHECK(bound.by == "work");
    return bound.ticks;
  };
  CHECK(ticks({"ff", "ff"}, 1, 2, {}) == 12);      // two tasks of 6 on each of two SMs
  CHECK(ticks({"ff", "ff"}, 1, 3, {}) == 12);      // an SM has two
  CHECK(ticks({"ff", ".f"}, 3, 2, {}) == 30);      // five of nine
  CHECK(ticks({"ffff", "f..."}, 1, 4, {}) == 24);  // the longest chain
  CHECK(ticks({"ff", "ff"}, 1, 2, {.residency = 1}) == 24);
  CHECK(ticks({"pp", "ff"}, 1, 2, {.compute = 5, .compute_partial = 2}) == 6);
  CHECK(ticks({"ff", "ff"}, 1, 2, {.model = Model::overlap, .compute = 3, .reduce = 4}) == 8);
  CHECK(ticks({"..", ".."}, 1, 2, {}) == 0);
  test::Random random(test::seed(76));
  for (int round = 0; round < 500; ++round) {
    const Problem problem = test::any_problem(random, 5);
    const Timing timing = test::random_timing(random, problem);
    CAPTURE(round);
    REQUIRE(work_bound(problem, timing).ticks <=
            dag::lower_bounds(problem, timing, Dispatch::static_).best.ticks);
  }
}

/// The makespan when local search began, and the optimum; nothing if it never began.
struct LocallySearched {
  std::optional<Ticks> before;
  Optimum optimum;
};

LocallySearched locally_searched(const Problem& problem, const Timing& timing, int threads) {
  LocallySearched searched;
  SearchOptions options = options_of(3, threads);
  options.progress = [&](const std::string& phase, const Optimum& so_far) {
    if (phase == "local search" && !searched.before) searched.before = so_far.best->makespan;
  };
  searched.optimum = optimized(problem, timing, options);
  return searched;
}

TEST_CASE("local search improves, and the number of its threads does not matter") {
  test::Random random(test::seed(73));
  std::int64_t reached = 0;
  std::int64_t improved = 0;
  while (reached < 12) {
    const Problem problem = test::any_problem(random, 9);
    Timing timing = test::random_timing(random, problem);
    timing.model = Model::overlap;  // nothing else proves or finds much there
    if (problem.tasks() < 20) continue;
    CAPTURE(reached, problem.heads, problem.sms, problem.kv_tiles(), problem.q_tiles());
    const LocallySearched one = locally_searched(problem, timing, 1);
    if (!one.before) continue;
    ++reached;
    const LocallySearched four = locally_searched(problem, timing, 4);
    REQUIRE(one.optimum.best->makespan == four.optimum.best->makespan);
    REQUIRE(one.optimum.best->table.slots == four.optimum.best->table.slots);
    REQUIRE(one.optimum.best->makespan <= *one.before);
    improved += one.optimum.best->makespan < *one.before ? 1 : 0;
  }
  CHECK(improved >= 2);
}

TEST_CASE("a search that its effort cuts short proves nothing and leaves the bound") {
  test::Random random(test::seed(74));
  std::int64_t unproved = 0;
  std::int64_t proved_by_search = 0;
  for (int round = 0; round < 1'500; ++round) {
    const Problem problem = test::any_problem(random, 4);
    Timing timing = test::random_timing(random, problem);
    timing.model = Model::chain;
    timing.release = Release::immediate;
    if (problem.tasks() > 14) continue;
    CAPTURE(round, problem.heads, problem.sms, timing.residency);
    const Ticks bound = dag::lower_bounds(problem, timing, Dispatch::static_).best.ticks;
    const Optimum cut = optimized(problem, timing, options_of(0));
    if (cut.best->makespan == bound) {
      REQUIRE(cut.proof == ProofKind::bound);
      continue;
    }
    // Without effort no search looks at a state: it has proved nothing, whatever it found.
    REQUIRE(cut.proof == ProofKind::none);
    REQUIRE(cut.lower_bound.ticks == bound);
    REQUIRE(cut.lower_bound.by != "search");
    ++unproved;
    const Optimum whole = optimized(problem, timing, options_of(20));
    REQUIRE(whole.best->makespan <= cut.best->makespan);
    if (whole.proof != ProofKind::search) continue;
    ++proved_by_search;
    REQUIRE(whole.lower_bound.ticks > bound);
  }
  CHECK(unproved > 10);
  CHECK(proved_by_search > 1);
}

/// Problems that need a round more than any bound says: 2 of 20,000 random ones.
std::vector<Problem> above_their_bounds() {
  return {test::tiles_problem({".fff.", "..fff", "ff...", ".fff.", ".fff."}, 1, 5),
          test::tiles_problem({"ff.f.", "...ff", "ff.f.", "fff..", "ff.f."}, 1, 6)};
}

TEST_CASE("rounds are refuted when the solver has refuted them, and not when it was stopped") {
  if (test::skipped_without_sat_solver()) return;
  for (const Problem& problem : above_their_bounds()) {
    const dag::Bounds bounds = dag::slot_bounds(problem);
    CHECK(bounds.best.ticks == 4);
    const auto searched = [&](std::int64_t questions_to_solver) {
      bool asks = false;
      SearchOptions options = options_of(5);
      options.progress = [&](const std::string& phase, const Optimum&) {
        asks = asks || phase == "rounds by SAT";
      };
      options.stop = [&] { return asks && --questions_to_solver < 0; };
      return optimize(problem, {.timing = {}, .slot_model = true},
                      {bounds.best.ticks, bounds.best.by}, std::nullopt, options);
    };
    const Optimum whole = searched(1'000'000'000);
    CHECK(whole.proof == ProofKind::search);
    CHECK(whole.best->makespan == 5);
    CHECK(whole.lower_bound.ticks == 5);
    // The first question is the loop's, the second the solver's.
    const Optimum cut = searched(1);
    CHECK(cut.stopped);
    CHECK(cut.proof == ProofKind::none);
    CHECK(cut.lower_bound.ticks == 4);
  }
}

TEST_CASE("a search that is stopped keeps its best and proves nothing") {
  const Problem problem = make_problem(parse_mask("sliding:left=5,right=0"), {14, 14}, {}, 3, 5);
  SearchOptions options = options_of(10);
  options.stop = [] { return true; };
  const Optimum optimum = optimized(problem, {.reduce = 5}, options);
  CHECK(optimum.stopped);
  CHECK(optimum.best.has_value());
  CHECK(optimum.proof == ProofKind::none);
}

TEST_CASE("a search that is stopped at any question has a table that runs, and no false proof") {
  test::Random random(test::seed(77));
  std::int64_t stopped = 0;
  for (int round = 0; stopped < 150; ++round) {
    const Problem problem = test::any_problem(random, 4);
    const Timing timing = test::random_timing(random, problem);
    const bool slot_model = random.chance(4);
    const dag::Bounds bounds = slot_model ? dag::slot_bounds(problem)
                                          : dag::lower_bounds(problem, timing, Dispatch::static_);
    const auto searched = [&](std::int64_t& questions) {
      SearchOptions options = options_of(1);
      options.stop = [&] { return questions-- <= 0; };
      return optimize(problem, {.timing = timing, .slot_model = slot_model},
                      {bounds.best.ticks, bounds.best.by}, std::nullopt, options);
    };
    constexpr std::int64_t kMost = 1'000;
    std::int64_t all = kMost;
    const Optimum whole = searched(all);
    all = std::min(kMost - all, kMost);
    for (std::int64_t asked = 0; asked < all; asked += 1 + asked / 2) {
      CAPTURE(round, asked, slot_model);
      std::int64_t questions = asked;
      const Optimum cut = searched(questions);
      ++stopped;
      REQUIRE(cut.best.has_value());
      // Rounds know no release that is delayed.
      const Timing& runs_by = slot_model ? Timing{} : timing;
      REQUIRE(dag::verify(cut.best->table, runs_by).verdict == dag::Verdict::ok);
      REQUIRE(cut.best->makespan >= whole.lower_bound.ticks);
      REQUIRE(cut.lower_bound.ticks <= whole.best->makespan);
      if (cut.proof != ProofKind::none) REQUIRE(cut.best->makespan == whole.best->makespan);
      if (!slot_model)
        REQUIRE(sim::simulate(cut.best->table, timing).makespan == cut.best->makespan);
    }
  }
}

TEST_CASE("a search whose times could overflow is refused before it begins") {
  const Problem problem = make_problem(make_mask("full"), {2, 2}, {}, 1, 1);
  constexpr Ticks kMost = Ticks{1} << 60;
  const auto searched = [&](const Timing& timing) {
    return optimize(problem, {.timing = timing}, {}, std::nullopt, options_of(0));
  };
  CHECK(searched({.compute = kMost / 4, .reduce = 0}).best.has_value());
  for (const Timing& timing : {Timing{.compute = kMost / 4 + 1, .reduce = 0}, Timing{.compute = -1},
                               Timing{.compute = 0, .reduce = 0}, Timing{.latency = -1}})
    CHECK_THROWS_AS(searched(timing), Error);
}

TEST_CASE("a build has a SAT solver where it can name one") {
  CHECK(has_sat_solver() == !sat_solver().empty());
}

TEST_CASE("on the paper's shapes no named schedule beats optimal, in the overlap model") {
  test::Random random(test::seed(75));
  for (const char* mask : {"full", "causal"}) {
    for (std::int64_t length = 512; length <= 16'384; length *= 2) {
      // 16,384 tokens, a model dimension of 2,048.
      const std::int64_t head_dim = random.chance(2) ? 64 : 128;
      const std::int64_t heads = 2'048 / head_dim * (16'384 / length);
      const Problem problem =
          make_problem(make_mask(mask), {length, length}, {128, 128}, heads, 132);
      const Timing timing{.model = Model::overlap, .compute = 10, .reduce = 4, .latency = 3};
      const Table best = schedules::build(schedules::select("optimal:effort=0"), problem, timing);
      const Ticks least = sim::simulate(best, timing).makespan;
      for (const schedules::Schedule* schedule : schedules::all()) {
        const schedules::Selection selection = schedules::select(schedule->name);
        if (schedule->searches() || schedules::why_unsupported(selection, problem)) continue;
        CAPTURE(head_dim, mask, length, schedule->name);
        const Table table = schedules::build(selection, problem, timing);
        REQUIRE(sim::simulate(table, timing).makespan >= least);
      }
    }
  }
}

}  // namespace
}  // namespace stagger::search
