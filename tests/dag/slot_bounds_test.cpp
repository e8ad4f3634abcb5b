// The matching bound of the slot model as dag/README.md states it, over every set that it names,
// with matchings and packings found by trying them all.

#include "dag/slot_bounds.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/random.hpp"

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <vector>

namespace stagger::dag {
namespace {

using Tiles = std::vector<KvTile>;

/// The most of these KV tiles that can have a Q tile each.
std::int64_t largest_matching(const TileGrid& grid, const Tiles& tiles, std::size_t next,
                              std::set<QTile>& taken) {
  if (next == tiles.size()) return 0;
  std::int64_t most = largest_matching(grid, tiles, next + 1, taken);
  for (const QTile q : grid.live_q(tiles[next])) {
    if (!taken.insert(q).second) continue;
    most = std::max(most, 1 + largest_matching(grid, tiles, next + 1, taken));
    taken.erase(q);
  }
  return most;
}

Ticks shortest_packing(const std::vector<Ticks>& jobs, std::vector<Ticks>& loads,
                       std::size_t next) {
  if (next == jobs.size()) return *std::max_element(loads.begin(), loads.end());
  Ticks best = INT64_MAX;
  std::set<Ticks> tried;
  for (Ticks& load : loads) {
    if (!tried.insert(load).second) continue;
    load += jobs[next];
    best = std::min(best, shortest_packing(jobs, loads, next + 1));
    load -= jobs[next];
  }
  return best;
}

/// What one set of KV tiles says, of one head and of all.
Ticks said_of(const Problem& problem, const Tiles& tiles) {
  std::set<QTile> taken;
  const std::int64_t edges = largest_matching(problem.common_grid(), tiles, 0, taken);
  if (edges == std::ssize(tiles)) return 0;
  Ticks most = 0;
  for (const std::int32_t heads : {1, problem.heads}) {
    std::vector<Ticks> jobs;
    for (std::int32_t head = 0; head < heads; ++head) {
      for (const KvTile kv : tiles)
        jobs.push_back(problem.common_grid().chain_length(kv));
    }
    std::sort(jobs.rbegin(), jobs.rend());
    std::vector<Ticks> loads(at(std::min<std::int64_t>(edges * heads, problem.sms)), 0);
    most = std::max(most, shortest_packing(jobs, loads, 0));
  }
  return most;
}

/// The KV tiles that share Q tiles with one, over others or not.
Tiles component_of(const TileGrid& grid, KvTile first) {
  std::set<KvTile> found{first};
  for (bool grown = true; grown;) {
    grown = false;
    for (KvTile kv{0}; kv.value < grid.kv_tiles(); ++kv) {
      for (QTile q{0}; q.value < grid.q_tiles(); ++q) {
        const bool meets =
            grid.live(kv, q) &&
            std::any_of(found.begin(), found.end(), [&](KvTile one) { return grid.live(one, q); });
        if (meets) grown = found.insert(kv).second || grown;
      }
    }
  }
  return {found.begin(), found.end()};
}

Ticks said(const Problem& problem) {
  const TileGrid& grid = problem.common_grid();
  Ticks most = 0;
  const auto try_all = [&](const Tiles& tiles) {
    for (std::int32_t least = 1; least <= grid.q_tiles(); ++least) {
      Tiles longest;
      for (const KvTile kv : tiles) {
        if (grid.chain_length(kv) >= least) longest.push_back(kv);
      }
      if (!longest.empty()) most = std::max(most, said_of(problem, longest));
    }
  };
  Tiles all;
  for (KvTile kv{0}; kv.value < grid.kv_tiles(); ++kv) {
    if (grid.chain_length(kv) == 0) continue;
    all.push_back(kv);
    try_all(component_of(grid, kv));
  }
  try_all(all);
  return most;
}

TEST_CASE("the matching bound is the largest of what every set of chains says") {
  test::Random random(test::seed(48));
  std::int64_t bounding = 0;
  std::int64_t checked = 0;
  while (checked < 1'500) {
    // More KV tiles than Q tiles, so that not all can run at once.
    std::vector<std::string> rows;
    const std::int64_t q_tiles = random.between(1, 4);
    for (std::int64_t kv = random.between(1, 6); kv > 0; --kv) {
      // Often the row before again: chains that are alike get in each other's way.
      if (!rows.empty() && random.chance(2)) {
        rows.push_back(rows.back());
        continue;
      }
      rows.emplace_back();
      for (std::int64_t q = 0; q < q_tiles; ++q)
        rows.back() += random.chance(2) ? '.' : 'f';
    }
    const Problem problem =
        test::tiles_problem(rows, static_cast<std::int32_t>(random.between(1, 2)),
                            static_cast<std::int32_t>(random.between(1, 7)));
    if (problem.tasks() == 0 || problem.chains() > 8) continue;
    ++checked;
    CAPTURE(checked, rows, problem.heads, problem.sms);
    const Bounds bounds = slot_bounds(problem);
    REQUIRE(std::string(bounds.all.back().by) == "matching");
    REQUIRE(bounds.all.back().ticks == said(problem));
    bounding += bounds.all.back().ticks > 0 ? 1 : 0;
  }
  CHECK(bounding > 200);
}

TEST_CASE("no set of chains is left out, though a larger one says less") {
  // Four chains of three dQ tiles take two waves; a fifth, shorter one has a dQ tile of its own, so
  // that five run on four SMs.
  const auto matching = [](const std::vector<std::string>& rows, std::int32_t sms) {
    return slot_bounds(test::tiles_problem(rows, 1, sms)).all.back().ticks;
  };
  CHECK(matching({"fff.", "fff.", "fff.", "fff."}, 4) == 6);
  CHECK(matching({"fff.", "fff.", "fff.", "fff.", "..ff"}, 4) == 6);
  CHECK(matching({"fff..", "fff..", "fff..", "fff..", "..ff.", "....f"}, 6) == 6);
  CHECK(matching({"ffff.", "ffff.", "ffff.", "ffff.", "ffff.", ".fff.", "...ff"}, 5) == 8);
}

TEST_CASE("no more sets of chains are tried once it is to stop") {
  // Every number of its longest chains is a set; all of them are some 160,000 chains to pack.
  const Problem problem = make_problem(make_mask("causal"), {160, 400}, {}, 12, 700);
  std::int64_t asked = 0;
  const auto matching = [&](bool stops) {
    asked = 0;
    const Bounds bounds = slot_bounds(problem, [&] {
      ++asked;
      return stops;
    });
    REQUIRE(std::string(bounds.all.back().by) == "matching");
    return bounds.all.back().ticks;
  };
  const Ticks whole = matching(false);
  REQUIRE(asked > 1);
  CHECK(matching(true) <= whole);
  CHECK(asked == 1);
}

TEST_CASE("a problem without tasks takes no rounds, and chains of several heads match nothing") {
  const Bounds none = slot_bounds(test::tiles_problem({"..", ".."}, 2, 2));
  CHECK(none.best.ticks == 0);
  REQUIRE(none.all.size() == 1);
  const Problem grouped = make_problem(make_mask("full"), {2, 3}, {}, 2, 3,
                                       {.heads_kv = 1, .span = 2, .combine = Combine::none});
  CHECK(std::string(slot_bounds(grouped).all.back().by) == "degree");
}

TEST_CASE("chains of heads with masks of their own end rounds apart, the longest last") {
  for (const char* const mask :
       {"heads; tiles:rows=f....; tiles:rows=fffff", "heads; tiles:rows=fffff; tiles:rows=f...."}) {
    const Problem problem = make_problem(parse_mask(mask), {5, 1}, {}, 2, 2,
                                         {.heads_kv = 1, .span = 1, .combine = Combine::ordered});
    CHECK(slot_bounds(problem).best.ticks == 5);
  }
}

}  // namespace
}  // namespace stagger::dag
