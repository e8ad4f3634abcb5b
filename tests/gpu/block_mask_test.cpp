#include "gpu/check/block_mask.hpp"

#include "core/error.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/masks.hpp"

namespace stagger::gpu {
namespace {

bool sees(const BlockMask& mask, std::int64_t query, std::int64_t key) {
  constexpr std::int64_t kSide = BlockMask::kSide;
  const std::int32_t kind =
      mask.kinds[static_cast<std::size_t>(query / kSide * mask.kv_blocks + key / kSide)];
  if (kind < 0) return kind == BlockMask::kFull;
  return (mask.seen[static_cast<std::size_t>(kind * kSide + query % kSide)] >> key % kSide & 1) ==
         1;
}

/// Asks also beyond the last token, up to the end of its block.
void check(const Problem& problem) {
  const TokenMask tokens(problem);
  const Lengths& lengths = problem.lengths;
  const BlockMask mask = block_mask(tokens, lengths);
  CAPTURE(problem.mask.family->name, lengths.q, lengths.kv);
  REQUIRE(mask.kinds.size() == static_cast<std::size_t>(mask.q_blocks * mask.kv_blocks));
  for (std::int64_t query = 0; query < mask.q_blocks * BlockMask::kSide; ++query) {
    for (std::int64_t key = 0; key < mask.kv_blocks * BlockMask::kSide; ++key) {
      const bool there = query < lengths.q && key < lengths.kv;
      REQUIRE(sees(mask, query, key) == (there && tokens.sees(query, key)));
    }
  }
}

TEST_CASE("blocks say of every pair what the mask says, and nothing is beyond the last token") {
  for (const Problem& problem : test::every_small_mask())
    check(problem);
  std::uint32_t seed = 0;
  for (const Lengths& lengths : {Lengths{200, 200}, Lengths{64, 128}, Lengths{129, 63}}) {
    for (const Problem& problem : test::every_mask(lengths, {32, 48}, 1, ++seed))
      check(problem);
  }
}

TEST_CASE("only blocks that a mask cuts are partial") {
  const Problem problem = make_problem(make_mask("causal"), {256, 256}, {16, 16}, 1, 0);
  const BlockMask mask = block_mask(TokenMask(problem), problem.lengths);
  constexpr std::int32_t kEmpty = BlockMask::kEmpty;
  constexpr std::int32_t kFull = BlockMask::kFull;
  CHECK(mask.kinds == std::vector<std::int32_t>{0, kEmpty, kEmpty, kEmpty, kFull, 1, kEmpty, kEmpty,
                                                kFull, kFull, 2, kEmpty, kFull, kFull, kFull, 3});
  CHECK(mask.seen.size() == 4 * 64);
}

TEST_CASE("more blocks than memory should hold are refused") {
  const Lengths lengths{.q = std::int64_t{1} << 20, .kv = std::int64_t{1} << 20};
  const Problem problem = make_problem(make_mask("full"), lengths, {1 << 18, 1 << 18}, 1, 0);
  CHECK_THROWS_AS(block_mask(TokenMask(problem), lengths), Error);
}

}  // namespace
}  // namespace stagger::gpu
