#include "core/tile_grid.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/random.hpp"

namespace stagger {
namespace {

TEST_CASE("a grid counts what is in it, tile by tile") {
  test::Random random(test::seed(31));
  for (int round = 0; round < 200; ++round) {
    const auto kv_tiles = static_cast<std::int32_t>(random.between(0, 5));
    const auto q_tiles = static_cast<std::int32_t>(random.between(0, 5));
    std::vector<TileKind> kinds;
    for (std::int32_t tile = 0; tile < kv_tiles * q_tiles; ++tile)
      kinds.push_back("..pff"[random.between(0, 4)] == '.'
                          ? TileKind::empty
                          : (random.chance(2) ? TileKind::partial : TileKind::full));
    const TileGrid grid(kv_tiles, q_tiles, kinds);
    CAPTURE(round, kv_tiles, q_tiles);
    TileCounts counts;
    std::vector<std::int32_t> contributions(static_cast<std::size_t>(q_tiles));
    for (KvTile kv{0}; kv.value < kv_tiles; ++kv) {
      std::vector<QTile> live;
      for (QTile q{0}; q.value < q_tiles; ++q) {
        const TileKind kind = kinds[static_cast<std::size_t>(kv.value * q_tiles + q.value)];
        REQUIRE(grid.kind(kv, q) == kind);
        REQUIRE(grid.live(kv, q) == (kind != TileKind::empty));
        if (kind == TileKind::full) ++counts.full;
        if (kind == TileKind::partial) ++counts.partial;
        if (kind == TileKind::empty) ++counts.empty;
        if (kind == TileKind::empty) continue;
        live.push_back(q);
        ++contributions[static_cast<std::size_t>(q.value)];
      }
      REQUIRE(grid.live_q(kv) == live);
      REQUIRE(grid.chain_length(kv) == std::ssize(live));
    }
    REQUIRE(grid.counts() == counts);
    REQUIRE(grid.live_tiles() == counts.full + counts.partial);
    for (QTile q{0}; q.value < q_tiles; ++q)
      REQUIRE(grid.contributions(q) == contributions[static_cast<std::size_t>(q.value)]);
    for (std::int32_t kv = -1; kv <= kv_tiles; ++kv) {
      for (std::int32_t q = -1; q <= q_tiles; ++q) {
        const bool inside = kv >= 0 && kv < kv_tiles && q >= 0 && q < q_tiles;
        REQUIRE(grid.contains(KvTile{kv}, QTile{q}) == inside);
      }
    }
  }
}

}  // namespace
}  // namespace stagger
