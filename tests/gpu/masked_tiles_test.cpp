#include "gpu/cuda/masked_tiles.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/masks.hpp"

#include <algorithm>
#include <set>

namespace stagger::gpu::cuda {
namespace {

/// Whether a query of a masked tile sees a key of it, by what the portable kernel is told.
bool is_told(const PortableMask& told, const TileShape& tile, std::int64_t place,
             std::int64_t query, std::int64_t key) {
  if (place < told.in_ranges) {
    const SeenQueries queries = told.queries[at(place * tile.kv + key)];
    return queries.begin <= query && query < queries.end;
  }
  const std::int64_t row = (place - told.in_ranges) * tile.q + query;
  return (told.bits[at(row * told.words + key / 32)] >> key % 32 & 1) != 0;
}

/// Holds the masked tiles, and what is told of each of their pairs, to the mask. Returns how many
/// tiles are told bit by bit.
std::int64_t check_tiles(const Problem& problem) {
  CAPTURE(mask_words(problem.mask), problem.lengths.q, problem.lengths.kv, problem.shape.q,
          problem.shape.kv);
  const TokenMask mask(problem);
  const MaskedTiles masked = masked_tiles(problem, mask);
  const PortableMask told = portable_mask(problem, mask);
  const TileShape tile = {.q = std::min(problem.shape.q, problem.lengths.q),
                          .kv = std::min(problem.shape.kv, problem.lengths.kv)};
  REQUIRE(told.in_ranges == masked.in_ranges);
  REQUIRE(std::ssize(told.queries) == masked.in_ranges * tile.kv);
  REQUIRE(std::ssize(told.bits) == std::ssize(masked.bits()) * tile.q * told.words);
  std::set<std::pair<KvTile, QTile>> places;
  for (std::int64_t place = 0; place < std::ssize(masked.tiles); ++place) {
    const auto kv = masked.tiles[at(place)].first;
    const auto q = masked.tiles[at(place)].second;
    places.insert({kv, q});
    std::int64_t most = 0;  // ranges of queries that see a key
    std::int64_t wrong = 0;
    for (std::int64_t column = 0; column < tile.kv; ++column) {
      const std::int64_t key = kv.value * problem.shape.kv + column;
      if (key >= problem.lengths.kv) break;
      bool before = false;
      std::int64_t ranges = 0;
      for (std::int64_t row = 0; row < tile.q; ++row) {
        const std::int64_t query = q.value * problem.shape.q + row;
        const bool sees = query < problem.lengths.q && mask.sees(query, key);
        ranges += sees && !before ? 1 : 0;
        before = sees;
        wrong += sees != is_told(told, tile, place, row, column) ? 1 : 0;
      }
      most = std::max(most, ranges);
    }
    REQUIRE(wrong == 0);
    REQUIRE((most > 1) == (place >= masked.in_ranges));
  }
  // Each tile of which something is hidden, and no other.
  REQUIRE(places.size() == masked.tiles.size());
  for (KvTile kv{0}; kv.value < problem.kv_tiles(); ++kv) {
    const bool ragged = (kv.value + 1) * problem.shape.kv > problem.lengths.kv;
    for (QTile q{0}; q.value < problem.q_tiles(); ++q) {
      const TileKind kind = problem.common_grid().kind(kv, q);
      REQUIRE(places.contains({kv, q}) ==
              (kind == TileKind::partial || (kind == TileKind::full && ragged)));
    }
  }
  return std::ssize(masked.bits());
}

TEST_CASE("every mask of four queries and five keys is told as it is, in tiles of any shape") {
  std::int64_t cases = 0;
  std::int64_t in_bits = 0;
  for (std::uint32_t pairs = 1; pairs < 1U << 20; pairs += pairs < 2000 ? 1 : 977) {
    const Mask mask = test::mask_of_pairs({4, 5}, [&](std::int64_t query, std::int64_t key) {
      return (pairs >> (query * 5 + key) & 1) != 0;
    });
    for (const TileShape& shape : {TileShape{4, 5}, TileShape{3, 3}, TileShape{2, 4}}) {
      in_bits += check_tiles(make_problem(mask, {4, 5}, shape, 1, 0));
      ++cases;
    }
  }
  CHECK(cases > 9000);
  CHECK(in_bits > 2000);
}

TEST_CASE("sinks beside a window, and a document's triangle, are told by ranges") {
  for (const char* mask : {"sliding:left=100,right=0 | global:first=4 & causal",
                           "document:lengths=130+390,causal=true", "prefix:length=300"}) {
    for (const TileShape& shape : {TileShape{64, 128}, TileShape{80, 128}, TileShape{128, 128}})
      CHECK(check_tiles(make_problem(parse_mask(mask), {520, 520}, shape, 1, 0)) == 0);
  }
}

TEST_CASE("random ranges of keys, and every kind of mask, are told as they are") {
  test::Random random(test::seed(20261124));
  std::int64_t in_bits = 0;
  for (const Problem& problem : test::every_small_mask())
    in_bits += check_tiles(problem);
  for (int round = 0; round < 400; ++round) {
    const Lengths lengths{.q = random.between(1, 12), .kv = random.between(1, 100)};
    const Mask mask = test::random_ranges(random, lengths, random.between(1, 6));
    if (mask.integers("q").empty()) continue;
    in_bits += check_tiles(
        make_problem(mask, lengths, {random.between(1, 12), random.between(1, 100)}, 1, 0));
  }
  for (const Problem& problem : test::masks_in_bits(random, {500, 520}, {64, 128}, 1)) {
    CAPTURE(mask_words(problem.mask).substr(0, 60));
    CHECK(check_tiles(problem) > 0);
  }
  CHECK(in_bits > 150);
}

}  // namespace
}  // namespace stagger::gpu::cuda
