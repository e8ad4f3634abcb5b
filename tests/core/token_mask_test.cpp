#include "core/token_mask.hpp"

#include "core/error.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/masks.hpp"

#include <algorithm>

namespace stagger {
namespace {

TEST_CASE("a mask at token level fills its tiles as their kinds say") {
  std::int64_t tiles = 0;
  for (const Problem& problem : test::every_small_mask()) {
    const TokenMask mask(problem);
    CAPTURE(problem.mask.family->name, problem.lengths.q, problem.lengths.kv);
    std::int64_t pairs = 0;
    for (KvTile kv{0}; kv.value < problem.kv_tiles(); ++kv) {
      for (QTile q{0}; q.value < problem.q_tiles(); ++q) {
        std::int64_t seen = 0;
        std::int64_t all = 0;
        for (std::int64_t query = q.value * problem.shape.q;
             query < std::min((q.value + 1) * problem.shape.q, problem.lengths.q); ++query) {
          for (std::int64_t key = kv.value * problem.shape.kv;
               key < std::min((kv.value + 1) * problem.shape.kv, problem.lengths.kv); ++key) {
            ++all;
            seen += mask.sees(query, key) ? 1 : 0;
          }
        }
        pairs += seen;
        ++tiles;
        const TileKind kind = problem.common_grid().kind(kv, q);
        REQUIRE((seen > 0) == (kind != TileKind::empty));
        if (kind == TileKind::full) REQUIRE(seen == all);
      }
    }
    REQUIRE(mask.pairs() == pairs);
  }
  CHECK(tiles > 400);
}

TEST_CASE("Heads with masks of their own see what they would see alone") {
  std::int64_t heads = 0;
  for (const Problem& problem : test::small_masks_by_head()) {
    const HeadMasks masks(problem);
    std::int64_t pairs = 0;
    for (Head head{0}; head.value < problem.heads; ++head) {
      const auto& places = problem.mask.integers("heads");
      const auto& parts = problem.mask.masks("of");
      const std::int64_t period = places.empty() ? std::ssize(parts) : std::ssize(places);
      const std::int64_t place = head.value % period;
      const Mask& own = parts[at(places.empty() ? place : places[at(place)])];
      const Problem alone = make_problem(own, problem.lengths, problem.shape, 1, 1);
      CAPTURE(mask_words(problem.mask), head.value, mask_words(own));
      REQUIRE(problem.grid_of(head) == alone.common_grid());
      const TokenMask mask(alone);
      for (std::int64_t query = 0; query < problem.lengths.q; ++query) {
        for (std::int64_t key = 0; key < problem.lengths.kv; ++key)
          REQUIRE(masks.of(head).sees(query, key) == mask.sees(query, key));
      }
      pairs += mask.pairs();
      ++heads;
    }
    REQUIRE(masks.pairs(problem.heads) == pairs);
    REQUIRE_THROWS_AS(masks.common(), Error);
    REQUIRE_THROWS_AS(TokenMask(problem), Error);
  }
  CHECK(heads > 30);
}

TEST_CASE("the ranges of keys that a query sees are apart, and are what it sees") {
  std::int64_t several = 0;
  for (const Problem& problem : test::every_small_mask()) {
    const TokenMask mask(problem);
    CAPTURE(problem.mask.family->name, problem.lengths.q, problem.lengths.kv);
    for (std::int64_t query = 0; query < problem.lengths.q; ++query) {
      const std::vector<KeyRange> ranges = mask.keys(query);
      std::vector<bool> seen(static_cast<std::size_t>(problem.lengths.kv));
      std::int64_t end = -1;
      for (const KeyRange& range : ranges) {
        REQUIRE(range.begin > end);
        REQUIRE(range.end > range.begin);
        end = range.end;
        for (std::int64_t key = range.begin; key < range.end; ++key)
          seen[static_cast<std::size_t>(key)] = true;
      }
      for (std::int64_t key = 0; key < problem.lengths.kv; ++key)
        REQUIRE(seen[static_cast<std::size_t>(key)] == mask.sees(query, key));
      several += ranges.size() > 1 ? 1 : 0;
    }
  }
  CHECK(several > 0);
}

TEST_CASE("a partial tile of a block-sparse mask is its lower triangle") {
  const Problem problem =
      make_problem(parse_mask("tiles:rows=pf"), {.q = 6, .kv = 4}, {.q = 3, .kv = 4}, 1, 0);
  const TokenMask mask(problem);
  for (std::int64_t query = 0; query < 6; ++query) {
    for (std::int64_t key = 0; key < 4; ++key)
      CHECK(mask.sees(query, key) == (query >= 3 || key <= query));
  }
}

TEST_CASE("partial tiles whose pairs are assumed are counted head by head") {
  const auto assumed = [](const char* mask, std::int64_t heads) {
    return assumed_tiles(
        make_problem(parse_mask(mask), {.q = 4, .kv = 4}, {.q = 2, .kv = 2}, heads, 0));
  };
  CHECK(assumed("tiles:rows=pf+fp", 1) == 2);
  CHECK(assumed("tiles:rows=pf+fp", 3) == 6);
  CHECK(assumed("causal", 3) == 0);
  CHECK(assumed("heads:heads=0+1+0; tiles:rows=pf+ff; tiles:rows=pp+pf", 3) == 1 + 3 + 1);
  CHECK(assumed("heads; causal; full", 2) == 0);
}

}  // namespace
}  // namespace stagger
