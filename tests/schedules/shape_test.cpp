#include "schedules/shape.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/random.hpp"

#include <string>
#include <vector>

namespace stagger::schedules {
namespace {

/// Whether KV tile i is live from Q tile `offset + ratio * i` to the last one, and nowhere else.
bool is_staircase(const TileGrid& grid, std::int32_t offset, std::int32_t ratio) {
  for (KvTile kv{0}; kv.value < grid.kv_tiles(); ++kv) {
    if (grid.chain_length(kv) == 0) return false;
    for (QTile q{0}; q.value < grid.q_tiles(); ++q) {
      if (grid.live(kv, q) != (q.value >= offset + ratio * kv.value)) return false;
    }
  }
  return true;
}

TEST_CASE("of all small grids those are staircases, full or causal that are by their definition") {
  std::int64_t staircases = 0;
  for (const auto& [kv_tiles, q_tiles] :
       {std::pair(1, 4), std::pair(2, 2), std::pair(2, 5), std::pair(3, 3), std::pair(3, 4)}) {
    for (unsigned pattern = 0; pattern < 1U << (kv_tiles * q_tiles); ++pattern) {
      std::vector<std::string> rows;
      for (int kv = 0; kv < kv_tiles; ++kv) {
        rows.emplace_back();
        for (int q = 0; q < q_tiles; ++q)
          rows.back() += (pattern >> (kv * q_tiles + q) & 1U) != 0 ? 'f' : '.';
      }
      const TileGrid grid = test::tiles_problem(rows, 1, 1).common_grid();
      CAPTURE(rows);
      const auto found = staircase(grid);
      bool any = false;
      for (std::int32_t offset = 0; offset < q_tiles; ++offset) {
        for (std::int32_t ratio = 1; ratio <= q_tiles; ++ratio) {
          if (!is_staircase(grid, offset, ratio)) continue;
          any = true;
          REQUIRE(found.has_value());
          REQUIRE(found->offset == offset);
          if (kv_tiles > 1) REQUIRE(found->ratio == ratio);
        }
      }
      REQUIRE(found.has_value() == any);
      if (found && kv_tiles == 1) REQUIRE(found->ratio == 1);
      staircases += any ? 1 : 0;
      REQUIRE(is_square_causal(grid) == (kv_tiles == q_tiles && is_staircase(grid, 0, 1)));
      REQUIRE(is_full(grid) == (pattern + 1 == 1U << (kv_tiles * q_tiles)));
    }
  }
  CHECK(staircases > 10);
}

}  // namespace
}  // namespace stagger::schedules
