#include "gpu/cuda/masked_tiles.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/masks.hpp"

#include <algorithm>
#include <set>

namespace stagger::gpu::cuda {
namespace {

/// Whether a query of a masked tile sees a key of it, by what the portable kernel is told.
bool is_told(const PortableMask& told, std::int64_t rows, std::int64_t place, std::int64_t query,
             std::int64_t key) {
  if (place < told.in_ranges) {
    const SeenKeys keys = told.keys[at(place * rows + query)];
    return keys.begin <= key && key < keys.end;
  }
  const std::int64_t row = (place - told.in_ranges) * rows + query;
  return (told.bits[at(row * told.words + key / 32)] >> key % 32 & 1) != 0;
}

/// Holds the masked tiles, and what is told of each of their pairs, to the mask. Returns how many
/// tiles are told bit by bit.
std::int64_t check_tiles(const Problem& problem) {
  CAPTURE(mask_words(problem.mask), problem.lengths.q, problem.lengths.kv, problem.shape.q,
          problem.shape.kv);
  const TokenMask mask(problem);
  const MaskedTiles masked = masked_tiles(problem);
  const PortableMask told = portable_mask(problem, mask);
  const std::int64_t rows = std::min(problem.shape.q, problem.lengths.q);
  REQUIRE(told.in_ranges == masked.in_ranges);
  REQUIRE(std::ssize(told.keys) == masked.in_ranges * rows);
  REQUIRE(std::ssize(told.bits) == std::ssize(masked.bits()) * rows * told.words);
  std::set<std::pair<KvTile, QTile>> places;
  for (std::int64_t place = 0; place < std::ssize(masked.tiles); ++place) {
    const auto kv = masked.tiles[at(place)].first;
    const auto q = masked.tiles[at(place)].second;
    places.insert({kv, q});
    std::int64_t most = 0;  // ranges that a query sees
    std::int64_t wrong = 0;
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t query = q.value * problem.shape.q + row;
      bool before = false;
      std::int64_t ranges = 0;
      for (std::int64_t column = 0; column < problem.shape.kv; ++column) {
        const std::int64_t key = kv.value * problem.shape.kv + column;
        if (key >= problem.lengths.kv) break;
        const bool sees = query < problem.lengths.q && mask.sees(query, key);
        ranges += sees && !before ? 1 : 0;
        before = sees;
        wrong += sees != is_told(told, rows, place, row, column) ? 1 : 0;
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
  CHECK(in_bits > 5000);
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
