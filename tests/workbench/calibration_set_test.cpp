#include "dag/verify.hpp"
#include "schedules/schedule.hpp"
#include "tests/support/catch.hpp"
#include "workbench/calibration/set.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace stagger::workbench {
namespace {

TEST_CASE("the calibration set runs on any device, fills it and is none of the paper's grid") {
  for (const std::int32_t sms : {1, 8, 78, 132}) {
    for (const TileShape tile : {TileShape{64, 64}, TileShape{80, 128}, TileShape{64, 128}}) {
      CAPTURE(sms, tile.q, tile.kv);
      const std::vector<Table> tables = calibration_set(tile, sms);
      REQUIRE(tables.size() >= 30);
      std::set<std::string> names;
      std::set<std::string> masks;
      for (const Table& table : tables) {
        CAPTURE(table.name, table.problem.kv_tiles());
        names.insert(table.name);
        masks.insert(table.problem.mask.family->name);
        const std::int64_t seq = table.problem.lengths.kv;
        CHECK((seq < 512 || (seq & (seq - 1)) != 0));
        CHECK(table.problem.sms <= sms);
        CHECK(table.problem.heads * table.problem.kv_tiles() >= sms);
        CHECK(table.problem.shape == tile);
        REQUIRE(dag::verify(table, {.residency = sms}).verdict == dag::Verdict::ok);
      }
      CHECK(names.size() >= 6);
      CHECK(masks == std::set<std::string>{"causal", "full"});
    }
  }
}

TEST_CASE("parts are added in order, in groups that fill the device, and every table ends") {
  for (const std::int32_t sms : {1, 8, 132}) {
    for (const TileShape tile : {TileShape{64, 128}, TileShape{80, 128}, TileShape{128, 128}}) {
      CAPTURE(sms, tile.q);
      const std::vector<Table> tables = parts_calibration_set(tile, sms);
      REQUIRE(tables.size() == 4);
      for (const Table& table : tables) {
        CHECK(table.problem.combine == Combine::ordered);
        CHECK(table.problem.group_parts() == 8);
        CHECK(table.problem.shape == tile);
        CHECK(table.problem.chains() >= 2 * sms);
        REQUIRE(dag::verify(table, {.residency = sms}).verdict == dag::Verdict::ok);
      }
      CHECK((sms < 132 || 2 * tables[0].problem.chains() < tables[3].problem.chains()));
    }
  }
}

TEST_CASE("the large tables are too large for a cache, few, and none of the paper's grid") {
  for (const std::int32_t sms : {8, 132}) {
    for (const auto& [tile, head_dim] :
         {std::pair{TileShape{64, 128}, 64}, std::pair{TileShape{128, 128}, 64},
          std::pair{TileShape{64, 128}, 128}, std::pair{TileShape{80, 128}, 128}}) {
      CAPTURE(sms, tile.q, tile.kv, head_dim);
      const std::vector<Table> tables = large_calibration_set(tile, sms, head_dim);
      CHECK(tables.size() == (tile.q == 80 ? 26 : 28));  // no symmetric shift: 128 is no multiple
      std::int64_t tasks = 0;
      for (const Table& table : tables) {
        CAPTURE(table.name, table.problem.heads);
        const std::int64_t seq = table.problem.lengths.q;
        CHECK((seq & (seq - 1)) != 0);
        const std::int64_t elements = table.problem.heads * seq * head_dim;
        CHECK(elements >= 24 << 20);
        CHECK(elements < 49 << 20);
        CHECK(elements != 16384 * 2048);
        CHECK(table.problem.sms == sms);
        CHECK(table.problem.shape == tile);
        tasks += table.problem.tasks();
      }
      CHECK(tasks < 1'900'000);
    }
  }
}

TEST_CASE("tables of one problem are next to each other") {
  const std::vector<Table> tables = calibration_set({64, 64}, 132);
  std::int64_t changes = 0;
  std::int64_t tasks = 0;
  for (std::size_t table = 1; table < tables.size(); ++table) {
    changes +=
        tables[table].problem.common_grid() != tables[table - 1].problem.common_grid() ? 1 : 0;
    tasks += tables[table].problem.tasks();
  }
  CHECK(changes == 5);
  CHECK(tasks < 500'000);
}

/// The fewest heads, an even number, of which so many are as much as is asked.
std::int64_t fewest_heads(std::int64_t of_head, std::int64_t asked) {
  std::int64_t heads = 2;
  while (heads * of_head < asked)
    heads += 2;
  return heads;
}

/// Every schedule that does not search, applies to the problem, and has a table that would run.
std::vector<std::string> names_that_run(const Problem& problem) {
  std::vector<std::string> names;
  for (const schedules::Schedule* schedule : schedules::all()) {
    const schedules::Selection selection = schedules::select(schedule->name);
    if (schedule->searches() || schedules::why_unsupported(selection, problem)) continue;
    const Table table = schedules::build(selection, problem);
    if (dag::verify(table, {}).verdict == dag::Verdict::ok) names.push_back(table.name);
  }
  return names;
}

TEST_CASE("the calibration set is six problems, each by every schedule that runs and three more") {
  struct Made {
    const char* mask;
    std::int64_t kv_tiles, chains_an_sm;
  };
  constexpr Made kMade[] = {{"full", 5, 2},   {"full", 12, 2},   {"full", 24, 1},
                            {"causal", 6, 2}, {"causal", 12, 2}, {"causal", 28, 1}};
  for (const std::int32_t sms : {1, 7, 8, 132}) {
    const std::vector<Table> tables = calibration_set({64, 128}, sms);
    std::size_t next = 0;
    for (const Made& made : kMade) {
      CAPTURE(sms, made.mask, made.kv_tiles, next);
      REQUIRE(next < tables.size());
      const Problem problem = tables[next].problem;
      CHECK(problem.mask.family->name == std::string(made.mask));
      CHECK(problem.kv_tiles() == made.kv_tiles);
      CHECK(problem.lengths.q == problem.lengths.kv);
      CHECK(problem.heads == fewest_heads(made.kv_tiles, made.chains_an_sm * sms));
      CHECK(problem.sms == std::min<std::int64_t>(sms, problem.heads * made.kv_tiles));
      std::vector<std::string> names = names_that_run(problem);
      for (const char* seed : {"1", "2", "3"})
        names.push_back(std::string("irregular ") + seed);
      REQUIRE(next + names.size() <= tables.size());
      for (const std::string& name : names) {
        CHECK(tables[next].name == name);
        CHECK(tables[next].problem.heads == problem.heads);
        CHECK(tables[next++].problem.common_grid() == problem.common_grid());
      }
    }
    CHECK(next == tables.size());
  }
}

TEST_CASE("the large tables have as few heads as their elements take") {
  for (const std::int64_t head_dim : {40, 64, 128}) {
    std::set<std::pair<std::string, std::int32_t>> seen;
    for (const Table& table : large_calibration_set({64, 128}, 16, head_dim)) {
      CAPTURE(head_dim, table.name);
      const std::string mask = table.problem.mask.family->name;
      const std::int32_t tiles = table.problem.kv_tiles();
      seen.insert({mask, tiles});
      CHECK(table.problem.heads == fewest_heads(table.problem.lengths.kv * head_dim,
                                                std::int64_t{tiles == 10 ? 48 : 24} << 20));
      CHECK(table.problem.sms == 16);
    }
    CHECK(seen == std::set<std::pair<std::string, std::int32_t>>{{"full", 6},
                                                                 {"full", 20},
                                                                 {"causal", 10},
                                                                 {"causal", 28},
                                                                 {"sliding", 20},
                                                                 {"document", 22}});
  }
}

TEST_CASE("the large tables have partial tiles enough to tell what one takes") {
  std::map<std::string, std::int64_t> percent;  // of a mask's tiles
  for (const Table& table : large_calibration_set({128, 128}, 132, 64)) {
    const auto partial =
        std::ranges::count_if(table.slots.begin(), table.slots.end(), [&](const Slot& slot) {
          return table.problem.common_grid().kind(slot.task.kv, slot.task.q) == TileKind::partial;
        });
    percent[table.problem.mask.family->name] = 100 * partial / std::ssize(table.slots);
  }
  CHECK(percent["full"] == 0);
  CHECK(percent["causal"] < 20);
  CHECK(percent["sliding"] > 30);
  CHECK(percent["document"] > 30);
}

}  // namespace
}  // namespace stagger::workbench
