// The bounds by hand and against every table of small problems; as their words say:
// said_bounds_test.cpp.

#include "dag/bounds.hpp"
#include "dag/slot_bounds.hpp"
#include "sim/simulate.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/naive.hpp"
#include "tests/support/random.hpp"

#include <string>

namespace stagger::dag {
namespace {

using Values = std::vector<Ticks>;

Values values_of(const Bounds& bounds) {
  Values values;
  for (const Bound& bound : bounds.all)
    values.push_back(bound.ticks);
  return values;
}

// Chains of 2 tasks and of 1, which meet at Q tile 0.
TEST_CASE("every bound of a small problem is what one gets by hand") {
  const auto bounds = [](std::int32_t sms, const Timing& timing, Dispatch dispatch) {
    return lower_bounds(test::tiles_problem({"ff", "f."}, 1, sms), timing, dispatch);
  };
  const Timing chain{.compute = 5, .reduce = 1, .latency = 2, .launch = 3, .epilogue = 4};
  Timing overlap = chain;
  overlap.model = Model::overlap;
  const auto names = [&] {
    std::string text;
    for (const Bound& bound : bounds(2, chain, Dispatch::static_).all)
      text += std::string(bound.by) + " ";
    return text;
  };
  CHECK(names() == "work chain packing accumulation ");
  // Chains take 3 + 12 + 4 and 3 + 6 + 4; Q tile 0 takes 3 + 5, two reductions and a latency, 4.
  CHECK(values_of(bounds(2, chain, Dispatch::static_)) == Values{19, 19, 19, 16});
  CHECK(values_of(bounds(2, chain, Dispatch::in_order)) == Values{19, 19, 19, 16});
  // Of Q tile 0's two contributions on one SM, one has a whole chain (13) before it or after it.
  CHECK(values_of(bounds(1, chain, Dispatch::static_)) == Values{32, 19, 32, 26});
  // The first reduction is beside the second compute phase: 3 + 5 + 5 + 1 + 4.
  CHECK(values_of(bounds(2, overlap, Dispatch::in_order)) == Values{18, 18, 18, 16});
  // The epilogue is beside the last reduction: 3 + 5 + 5 + 4; nothing need follow Q tile 0.
  CHECK(values_of(bounds(2, overlap, Dispatch::static_)) == Values{17, 17, 17, 12});
  CHECK(values_of(bounds(1, overlap, Dispatch::static_)) == Values{29, 17, 29, 21});
  // Reductions longer than what they overlap with: 2, then 7 for each of three tasks.
  const Timing slow{.model = Model::overlap, .compute = 2, .reduce = 7};
  CHECK(values_of(bounds(1, slow, Dispatch::static_)) == Values{23, 16, 23, 16});
  CHECK(bounds(2, chain, Dispatch::static_).degree_rounds == 2);
}

TEST_CASE("latency is between the reductions of a dQ tile, and nowhere else") {
  const Problem column = test::tiles_problem({"f", "f", "f", "f"}, 1, 4);
  const auto accumulation = [&](Ticks latency) {
    return lower_bounds(column, {.compute = 5, .reduce = 2, .latency = latency}, Dispatch::static_)
        .all[3]
        .ticks;
  };
  CHECK(accumulation(0) == 5 + 4 * 2);
  CHECK(accumulation(10) == 5 + 4 * 2 + 3 * 10);
  const Problem row = test::tiles_problem({"ffff"}, 1, 1);
  CHECK(values_of(lower_bounds(row, {.compute = 5, .reduce = 2, .latency = 10},
                               Dispatch::static_)) == Values{28, 28, 28, 7});
}

TEST_CASE("the bound of the memory is what goes through it, by hand") {
  const Memory memory{.l2 = 10, .rate = 4, .tile = {.q = 7, .dq = 5, .kv = 11, .gradient = 13}};
  const auto traffic = [](const std::vector<std::string>& rows, std::int32_t heads, Memory with) {
    const Bounds bounds =
        lower_bounds(test::tiles_problem(rows, heads, 2), {.memory = with}, Dispatch::static_);
    REQUIRE(std::string(bounds.all.back().by) == "traffic");
    return bounds.all.back().ticks;
  };
  // Two heads of two chains and three Q tiles: 2 (2 x 11 + 3 x 7) in, 2 x 2 x 13 past L2, and
  // 2 x 3 x 5 - 10 out of it.
  CHECK(traffic({"fff", "fff"}, 2, memory) == (86 + 72 + 3) / 4);
  // What is empty is not moved.
  CHECK(traffic({"f.f", "...", "f.f"}, 1, memory) == (22 + 14 + 26 + 10 - 10 + 3) / 4);
  // Of twelve tasks six add, which takes twice their dQ tile's bytes.
  Memory adding = memory;
  adding.add_permille = 2'000;
  CHECK(traffic({"fff", "fff"}, 2, adding) == (86 + 72 + 60 + 3) / 4);
  Memory roomy = memory;
  roomy.l2 = 1'000;
  CHECK(traffic({"fff", "fff"}, 2, roomy) == (86 + 52 + 3) / 4);
  roomy.rate = 1'000;
  CHECK(traffic({"fff", "fff"}, 2, roomy) == 1);
}

TEST_CASE("the bounds of the slot model are what one gets by hand, by components too") {
  const auto values = [](const std::vector<std::string>& rows, std::int32_t heads,
                         std::int32_t sms) {
    return values_of(slot_bounds(test::tiles_problem(rows, heads, sms)));
  };
  CHECK(values({"ff", "f."}, 1, 2) == Values{2, 2, 2, 2, 0});
  CHECK(values({"ff", "ff", "ff"}, 1, 3) == Values{2, 2, 2, 3, 4});  // two run at once: 2 + 2
  CHECK(values({"ff", "ff", "ff"}, 2, 6) == Values{2, 2, 2, 3, 4});
  // Five chains over two Q tiles, two at once: 6 rounds. With the four others, which are free, nine
  // chains of which six run at once would fit into 4.
  const std::vector<std::string> parts = {"ff........", "ff........", "ff........",
                                          "ff........", "ff........", "..ff......",
                                          "....ff....", "......ff..", "........ff"};
  CHECK(values(parts, 1, 9) == Values{2, 2, 2, 5, 6});
  CHECK(values(parts, 2, 18) == Values{2, 2, 2, 5, 6});
  CHECK(slot_bounds(test::tiles_problem(parts, 1, 9)).best.ticks == 6);
  const Bounds bounds = slot_bounds(test::tiles_problem(parts, 1, 9));
  std::string names;
  for (const Bound& bound : bounds.all)
    names += std::string(bound.by) + " ";
  CHECK(names == "work chain packing degree matching ");
}

// ---- against every table ----------------------------------------------------------------------

/// Every mask of so many tiles, at most `tasks` of them live.
std::vector<std::vector<std::string>> every_mask(std::size_t kv_tiles, std::size_t q_tiles,
                                                 std::size_t tasks) {
  std::vector<std::vector<std::string>> masks;
  std::string tiles(kv_tiles * q_tiles, '.');
  while (true) {
    const auto empty = static_cast<std::size_t>(std::count(tiles.begin(), tiles.end(), '.'));
    if (empty < tiles.size() && tiles.size() - empty <= tasks) {
      masks.emplace_back();
      for (std::size_t kv = 0; kv < kv_tiles; ++kv)
        masks.back().push_back(tiles.substr(kv * q_tiles, q_tiles));
    }
    std::size_t digit = 0;
    for (; digit < tiles.size() && tiles[digit] == 'p'; ++digit)
      tiles[digit] = '.';
    if (digit == tiles.size()) return masks;
    tiles[digit] = tiles[digit] == '.' ? 'f' : 'p';
  }
}

std::vector<Timing> timings() {
  std::vector<Timing> all;
  for (const Model model : {Model::chain, Model::overlap}) {
    for (const auto& [compute, partial, reduce] :
         {std::tuple{3, 3, 1}, std::tuple{1, 1, 3}, std::tuple{2, 4, 3}, std::tuple{4, 0, 2}}) {
      for (const auto& [latency, launch, epilogue] :
           {std::tuple{0, 0, 0}, std::tuple{2, 0, 0}, std::tuple{0, 2, 1}, std::tuple{1, 1, 5}}) {
        all.push_back({.model = model,
                       .compute = compute,
                       .compute_partial = partial,
                       .reduce = reduce,
                       .latency = latency,
                       .launch = launch,
                       .epilogue = epilogue});
      }
    }
  }
  return all;
}

TEST_CASE("no table of any small problem is below a bound, and many problems meet theirs") {
  const std::vector<Timing> every_timing = timings();
  std::int64_t met = 0;
  std::int64_t compared = 0;
  const auto check = [&](const Problem& problem, Dispatch dispatch) {
    std::vector<Ticks> optimum(every_timing.size(), INT64_MAX);
    test::each_table(problem, dispatch, [&](const Table& table) {
      for (std::size_t index = 0; index < every_timing.size(); ++index) {
        const sim::Simulation simulation = sim::simulate(table, every_timing[index]);
        if (!simulation.complete) break;  // whatever the times
        optimum[index] = std::min(optimum[index], simulation.makespan);
      }
    });
    for (std::size_t index = 0; index < every_timing.size(); ++index) {
      for (const Bound& bound : lower_bounds(problem, every_timing[index], dispatch).all) {
        CAPTURE(index, problem.heads, problem.sms, dispatch == Dispatch::static_, bound.by);
        REQUIRE(bound.ticks <= optimum[index]);
      }
      const Ticks best = lower_bounds(problem, every_timing[index], dispatch).best.ticks;
      met += best == optimum[index] ? 1 : 0;
      ++compared;
    }
  };
  for (const auto& [kv_tiles, q_tiles] :
       {std::pair{1, 1}, std::pair{1, 2}, std::pair{2, 1}, std::pair{1, 3}, std::pair{3, 1},
        std::pair{2, 2}, std::pair{2, 3}, std::pair{3, 2}}) {
    for (const auto& rows : every_mask(at(kv_tiles), at(q_tiles), 3)) {
      for (const std::int32_t sms : {1, 2}) {
        check(test::tiles_problem(rows, 1, sms), Dispatch::static_);
        check(test::tiles_problem(rows, 1, sms), Dispatch::in_order);
      }
    }
  }
  for (const auto& rows : {std::vector<std::string>{"f"}, {"p"}})
    check(test::tiles_problem(rows, 3, 2), Dispatch::static_);
  CHECK(compared > 10'000);
  CHECK(met > compared * 9 / 10);
}

TEST_CASE("no table of any small problem of the slot model is below a bound") {
  std::int64_t met = 0;
  std::int64_t compared = 0;
  for (const auto& [kv_tiles, q_tiles] : {std::pair{2, 2}, std::pair{2, 3}, std::pair{3, 2}}) {
    for (const auto& rows : every_mask(at(kv_tiles), at(q_tiles), 6)) {
      const bool has_partial = std::any_of(rows.begin(), rows.end(), [](const std::string& row) {
        return row.find('p') != std::string::npos;
      });
      if (has_partial) continue;  // as a full one here
      for (const std::int32_t sms : {1, 2, 3}) {
        const Problem problem = test::tiles_problem(rows, 1, sms);
        const std::int64_t optimum = test::naive_round_optimum(problem);
        const Bounds bounds = slot_bounds(problem);
        for (const Bound& bound : bounds.all) {
          CAPTURE(rows, sms, bound.by);
          REQUIRE(bound.ticks <= optimum);
        }
        met += bounds.best.ticks == optimum ? 1 : 0;
        ++compared;
      }
    }
  }
  CHECK(compared == 3 * (15 + 63 + 63));
  CHECK(met == compared);
}

}  // namespace
}  // namespace stagger::dag
