// What would shorten the bound: every change made by hand, on rows of letters.

#include "workbench/advice.hpp"

#include "dag/bounds.hpp"
#include "dag/slot_bounds.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random.hpp"
#include "workbench/optimization.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace stagger::workbench {
namespace {

Optimization of_problem(const Problem& problem, const Timing& timing, bool slot_model = false) {
  Optimization optimization;
  optimization.problem = problem;
  optimization.model.timing = timing;
  optimization.slot_model = slot_model;
  return optimization;
}

Ticks bound_of(const Problem& problem, const Timing& timing, bool slot_model) {
  return slot_model ? dag::slot_bounds(problem).best.ticks
                    : dag::lower_bounds(problem, timing, Dispatch::static_).best.ticks;
}

std::vector<std::string> rows_of(const TileGrid& grid) {
  std::vector<std::string> rows;
  for (KvTile kv{0}; kv.value < grid.kv_tiles(); ++kv) {
    rows.emplace_back();
    for (QTile q{0}; q.value < grid.q_tiles(); ++q)
      rows.back() += static_cast<char>(grid.kind(kv, q));
  }
  return rows;
}

std::int64_t live_of(const std::string& row) {
  return std::ssize(row) - std::ranges::count(row, '.');
}

/// The first of the rows with the most tiles in two: its first half, rounded up, then the rest.
std::vector<std::string> split_longest(std::vector<std::string> rows) {
  const auto longest = std::ranges::max_element(rows, {}, live_of);
  std::string front = *longest;
  std::string back = *longest;
  std::int64_t left = (live_of(*longest) + 1) / 2;
  for (std::size_t q = 0; q < front.size(); ++q) {
    (left > 0 ? back : front)[q] = '.';
    if ((*longest)[q] != '.') --left;
  }
  *longest = front;
  rows.insert(longest + 1, back);
  return rows;
}

TEST_CASE("advice is the bound of a problem that is changed by hand") {
  test::Random random(test::seed(61));
  int advised = 0;
  for (int round = 0; round < 300; ++round) {
    const Problem problem = test::any_problem(random, 6);
    Timing timing = test::random_timing(random, problem);
    timing.residency = 0;
    const bool slot_model = random.chance(3);
    if (slot_model) timing = {};
    const auto advice = advise(of_problem(problem, timing, slot_model));
    CAPTURE(round, slot_model);
    if (problem.tasks() == 0) {
      REQUIRE(advice.empty());
      continue;
    }
    REQUIRE(advice.size() >= 2);
    CHECK(advice[0].change == "one more SM");
    Problem more = problem;
    more.sms += 1;
    REQUIRE(advice[0].lower_bound == bound_of(more, timing, slot_model));
    CHECK(advice[1].change == "the longest KV tile in two (dK, dV spilled once)");
    std::vector<Mask> masks;
    for (Head head{0}; head.value < problem.heads; ++head)
      masks.push_back(
          make_mask("tiles", {{"rows", split_longest(rows_of(problem.grid_of(head)))}}));
    const Lengths tiles{problem.q_tiles(), problem.kv_tiles() + 1};
    const Mask by_head = masks.size() == 1 ? masks.front() : make_mask("heads", {{"of", masks}});
    const Problem split = make_problem(by_head, tiles, {}, problem.heads, problem.sms);
    REQUIRE(advice[1].lower_bound == bound_of(split, timing, slot_model));
    ++advised;
  }
  CHECK(advised > 100);
}

TEST_CASE("advice whose bound takes longer than there is time is not given") {
  const auto advised = [](std::int64_t tiles, bool stops, std::int64_t& asked) {
    const Problem problem =
        make_problem(parse_mask("sliding:left=100,right=0"), {tiles, tiles}, {}, 30, 131);
    return advise(of_problem(problem, {}, true), [&asked, stops] {
      ++asked;
      return stops;
    });
  };
  std::int64_t asked = 0;
  CHECK(advised(20, true, asked).size() == 2);
  CHECK(asked == 0);
  const std::vector<Advice> all = advised(200, true, asked);
  REQUIRE(all.size() == 1);
  CHECK(all[0].change == "one more SM");
  CHECK(asked == 1);
}

TEST_CASE("KV tiles of half the tokens are advised where half the compute is whole ticks") {
  const auto problem = [](std::int64_t tile_kv) {
    return make_problem(make_mask("causal"), {24, 24}, {.q = 4, .kv = tile_kv}, 2, 3);
  };
  const Timing even{.compute = 6, .compute_partial = 8, .reduce = 1, .epilogue = 1};
  const auto advice = advise(of_problem(problem(4), even));
  REQUIRE(advice.size() == 3);
  CHECK(advice[2].change == "KV tiles half as large (half the compute each)");
  const Timing half{.compute = 3, .compute_partial = 4, .reduce = 1, .epilogue = 1};
  CHECK(advice[2].lower_bound == bound_of(problem(2), half, false));
  const dag::Bound best = dag::lower_bounds(problem(2), half, Dispatch::static_).best;
  CHECK(advice[2].by == best.by);
  const Timing uniform{.compute = 6};
  REQUIRE(advise(of_problem(problem(4), uniform)).size() == 3);
  CHECK(advise(of_problem(problem(4), uniform))[2].lower_bound ==
        bound_of(problem(2), {.compute = 3}, false));

  CHECK(advise(of_problem(problem(3), even)).size() == 2);
  CHECK(advise(of_problem(problem(4), {.compute = 5, .compute_partial = 8})).size() == 2);
  CHECK(advise(of_problem(problem(4), {.compute = 6, .compute_partial = 7})).size() == 2);
  CHECK(advise(of_problem(problem(4), even, true)).size() == 2);
  Optimization in_ns = of_problem(problem(4), even);
  in_ns.model.clock = Clock::ns;
  CHECK(advise(in_ns).size() == 2);
}

TEST_CASE("KV tiles of half the tokens keep what heads share") {
  const auto problem = [](std::int64_t tile_kv) {
    return make_problem(make_mask("causal"), {16, 16}, {.q = 4, .kv = tile_kv}, 4, 3,
                        {.heads_kv = 1, .span = 2, .combine = Combine::ordered});
  };
  const auto advice = advise(of_problem(problem(4), {.compute = 6, .reduce_kv = 9}));
  REQUIRE(advice.size() == 3);
  CHECK(advice[2].lower_bound == bound_of(problem(2), {.compute = 3, .reduce_kv = 9}, false));
}

}  // namespace
}  // namespace stagger::workbench
