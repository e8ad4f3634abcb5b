#include "dag/verify.hpp"
#include "tests/support/catch.hpp"
#include "workbench/calibration/set.hpp"

#include <set>
#include <utility>

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

TEST_CASE("the large tables are too large for a cache, few, and none of the paper's grid") {
  for (const std::int32_t sms : {8, 132}) {
    for (const auto& [tile, head_dim] :
         {std::pair{TileShape{64, 128}, 64}, std::pair{TileShape{128, 128}, 64},
          std::pair{TileShape{64, 128}, 128}, std::pair{TileShape{80, 128}, 128}}) {
      CAPTURE(sms, tile.q, tile.kv, head_dim);
      const std::vector<Table> tables = large_calibration_set(tile, sms, head_dim);
      CHECK(tables.size() == (tile.q == 80 ? 3 : 4));  // no symmetric shift: 128 is no multiple
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
      CHECK(tasks < 300'000);
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

}  // namespace
}  // namespace stagger::workbench
