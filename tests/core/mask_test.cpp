#include "core/mask.hpp"

#include "core/error.hpp"
#include "core/files.hpp"
#include "core/limits.hpp"
#include "core/tiling.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/masks.hpp"
#include "tests/support/random.hpp"

#include <functional>
#include <map>

namespace stagger {
namespace {

using test::Random;

/// Whether query q sees key k, straight from the definition of a mask.
using Sees = std::function<bool(std::int64_t q, std::int64_t k)>;

TileKind brute_force(const Sees& sees, const Lengths& lengths, const TileShape& shape,
                     std::int64_t kv, std::int64_t q) {
  std::int64_t pairs = 0;
  std::int64_t seen = 0;
  for (std::int64_t query = q * shape.q; query < std::min((q + 1) * shape.q, lengths.q); ++query) {
    for (std::int64_t key = kv * shape.kv; key < std::min((kv + 1) * shape.kv, lengths.kv); ++key) {
      ++pairs;
      seen += sees(query, key) ? 1 : 0;
    }
  }
  return seen == 0 ? TileKind::empty : seen == pairs ? TileKind::full : TileKind::partial;
}

void expect_same(const Mask& mask, const Sees& sees, const Lengths& lengths,
                 const TileShape& shape) {
  const TileGrid grid = tile(mask, lengths, shape);
  REQUIRE(grid.kv_tiles() == (lengths.kv + shape.kv - 1) / shape.kv);
  REQUIRE(grid.q_tiles() == (lengths.q + shape.q - 1) / shape.q);
  std::int64_t live = 0;
  for (KvTile kv{0}; kv.value < grid.kv_tiles(); ++kv) {
    for (QTile q{0}; q.value < grid.q_tiles(); ++q) {
      CAPTURE(lengths.q, lengths.kv, shape.q, shape.kv, kv.value, q.value);
      REQUIRE(grid.kind(kv, q) == brute_force(sees, lengths, shape, kv.value, q.value));
      live += grid.live(kv, q) ? 1 : 0;
    }
  }
  REQUIRE(grid.live_tiles() == live);
}

TileShape random_shape(Random& random) {
  return {.q = random.between(1, 9), .kv = random.between(1, 9)};
}

TEST_CASE("every token mask tiles as the definition says, pair by pair") {
  Random random(20260121);
  for (int round = 0; round < 600; ++round) {
    const Lengths lengths{.q = random.between(1, 40), .kv = random.between(1, 40)};
    const std::int64_t shift = lengths.kv - lengths.q;
    CAPTURE(round);
    expect_same(
        make_mask("full"), [](auto, auto) { return true; }, lengths, random_shape(random));
    expect_same(
        make_mask("causal"), [&](auto q, auto k) { return k <= q + shift; }, lengths,
        random_shape(random));

    const std::int64_t left = random.between(-1, 20);
    const std::int64_t right = random.between(-1, 20);
    expect_same(
        make_mask("sliding", {{"left", left}, {"right", right}}),
        [&](auto q, auto k) {
          return (left == -1 || k >= q + shift - left) && (right == -1 || k <= q + shift + right);
        },
        lengths, random_shape(random));

    const std::int64_t prefix = random.between(0, 45);
    expect_same(
        make_mask("prefix", {{"length", prefix}}),
        [&](auto q, auto k) { return k < prefix || k <= q + shift; }, lengths,
        random_shape(random));
  }
}

TEST_CASE("packed documents and block-causal masks tile as the definition says") {
  Random random(7);
  for (int round = 0; round < 600; ++round) {
    std::vector<std::int64_t> documents;
    std::vector<std::int64_t> owner;
    for (std::int64_t count = random.between(1, 6); count > 0; --count) {
      documents.push_back(random.between(0, 12));
      owner.insert(owner.end(), static_cast<std::size_t>(documents.back()), std::ssize(documents));
    }
    const bool causal = random.chance(2);
    const Lengths packed{.q = std::ssize(owner), .kv = std::ssize(owner)};
    expect_same(
        make_mask("document", {{"lengths", documents}, {"causal", causal}}),
        [&](auto q, auto k) {
          return owner[static_cast<std::size_t>(q)] == owner[static_cast<std::size_t>(k)] &&
                 (!causal || k <= q);
        },
        packed, random_shape(random));

    std::vector<std::int64_t> q_blocks(static_cast<std::size_t>(random.between(1, 40)));
    std::vector<std::int64_t> kv_blocks(static_cast<std::size_t>(random.between(1, 40)));
    for (auto* blocks : {&q_blocks, &kv_blocks}) {
      for (std::int64_t& block : *blocks)
        block = random.between(-2, 8);
      std::sort(blocks->begin(), blocks->end());
    }
    expect_same(
        make_mask("block-causal", {{"q_blocks", q_blocks}, {"kv_blocks", kv_blocks}}),
        [&](auto q, auto k) {
          return kv_blocks[static_cast<std::size_t>(k)] <= q_blocks[static_cast<std::size_t>(q)];
        },
        {.q = std::ssize(q_blocks), .kv = std::ssize(kv_blocks)}, random_shape(random));
  }
}

TEST_CASE("the packed-document example of the block-sparse deadlock gives its published matrix") {
  const TileGrid grid =
      tile(parse_mask("document:lengths=366+25+80+364+149+21+12+3+3+1"), {1024, 1024}, {128, 128});
  const std::vector<std::string> published = {"ffp.....", "ffp.....", "pppp....", "..ppppp.",
                                              "...pffp.", "...pffp.", "...ppppp", "......pp"};
  for (QTile q{0}; q.value < 8; ++q) {
    std::string row;
    for (KvTile kv{0}; kv.value < 8; ++kv)
      row += static_cast<char>(grid.kind(kv, q));
    CHECK(row == published[static_cast<std::size_t>(q.value)]);
  }
}

TEST_CASE("the same example as FlashAttention-4's CSR arrays is the same grid") {
  const Mask csr = parse_mask(
      "csr:mask_block_cnt=1+1+4+5+2+2+5+2,mask_block_offset=0+1+2+6+11+13+15+20+22,"
      "mask_block_idx=2+2+0+1+2+3+2+3+4+5+6+3+6+3+6+3+4+5+6+7+6+7,full_block_cnt=2+2+0+0+2+2+0+0,"
      "full_block_offset=0+2+4+4+4+6+8+8+8,full_block_idx=0+1+0+1+4+5+4+5");
  CHECK(
      tile(csr, csr.family->implied(csr), {}) ==
      tile(parse_mask("document:lengths=366+25+80+364+149+21+12+3+3+1"), {1024, 1024}, {128, 128}));
}

TEST_CASE("any grid written as tiles reads back as itself") {
  Random random(11);
  for (int round = 0; round < 200; ++round) {
    const TileGrid grid = test::random_problem(random, 8).common_grid();
    const Mask mask = read_mask_json(write_mask_json(grid), "grid");
    REQUIRE(tile(mask, {grid.q_tiles(), grid.kv_tiles()}, {}) == grid);
  }
}

TEST_CASE("131,072 tokens at 128 x 128 tile for every kind") {
  const Lengths lengths{.q = 131'072, .kv = 131'072};
  for (const Problem& problem : test::every_mask(lengths, {128, 128}, 1, 3)) {
    CAPTURE(problem.mask.family->name);
    CHECK(problem.common_grid().live_tiles() > 0);
  }
  CHECK(tile(parse_mask("causal"), lengths, {128, 128}).live_tiles() == 1024 * 1025 / 2);
}

void expect_error(const std::function<void()>& work, const std::string& words) {
  try {
    work();
    FAIL("no error; expected: " << words);
  } catch (const Error& error) {
    CAPTURE(error.what());
    CHECK(std::string(error.what()).find(words) != std::string::npos);
  }
}

TEST_CASE("rows without tiles are written and read") {
  for (const std::string words : {"tiles:rows=f", "tiles:rows=+", "tiles:rows=++"})
    CHECK(mask_words(parse_mask(words)) == words);
  CHECK(parse_mask("tiles:rows=++").strings("rows") == std::vector<std::string>(3));
}

TEST_CASE("a wrong mask says what is wrong and what is known") {
  const auto parse = [](const char* text) { return [text] { (void)parse_mask(text); }; };
  expect_error(parse("diagonal"), "known: full, causal, sliding");
  expect_error(parse("sliding:width=3"), "known: left, right");
  expect_error(parse("sliding:left=x"), "not an integer");
  expect_error(parse("sliding:left=1,left=2"), "given twice");
  expect_error(parse("sliding:left=1,"), "sliding: '' is not key=value");
  expect_error(parse("document:lengths=3+"), "lengths = '' is not an integer");
  expect_error(parse("prefix"), "key 'length' is missing");
  expect_error(parse("document:lengths=3,causal=maybe"), "neither true nor false");
  expect_error(
      [] {
        (void)make_mask("sliding", {{"left", std::vector<std::int64_t>{}}});
      },
      "sliding: left must be");

  const auto tiled = [](const char* text, Lengths lengths) {
    return [text, lengths] { (void)tile(parse_mask(text), lengths, {}); };
  };
  expect_error(tiled("sliding:left=-2", {4, 4}), "-1 for unbounded");
  expect_error(tiled("document:lengths=3+2", {4, 4}), "add up to 5");
  expect_error(tiled("block-causal:q_blocks=1+0,kv_blocks=0+0", {2, 2}), "ids never decrease");
  expect_error(tiled("tiles:rows=ff+fx", {2, 2}), "unknown tile 'x'");
  expect_error(tiled("tiles:rows=ff+f", {2, 2}), "rows[1] has 1 tiles");
  expect_error(tiled("full", {std::int64_t{1} << 40, 4}), "is not within");
  expect_error(tiled("full", {1 << 20, 1 << 20}), "a head are supported");
  expect_error(tiled("csr:mask_block_cnt=1,mask_block_offset=0,mask_block_idx=9,full_block_cnt=0,"
                     "full_block_offset=0,full_block_idx=",
                     {4, 1}),
               "is no Q tile");
  expect_error(tiled("full", {-1, 4}), "is not within");
}

TEST_CASE("a CSR mask may have one Q tile, and of none has no KV tiles either") {
  const Mask one = parse_mask(
      "csr:mask_block_cnt=1+0,mask_block_offset=0+1,mask_block_idx=0,full_block_cnt=0+1,"
      "full_block_offset=0+0,full_block_idx=0");
  const TileGrid grid = tile(one, {1, 2}, {});
  CHECK(grid.kind(KvTile{0}, QTile{0}) == TileKind::partial);
  CHECK(grid.kind(KvTile{1}, QTile{0}) == TileKind::full);
  expect_error([&] { (void)tile(one, {0, 2}, {}); }, "entries for 0 KV tiles");
}

TEST_CASE("a CSR mask with a tile in both lists, or entries out of bounds, is refused") {
  // KV tile 0 has the partial tile 0 and the full tile 1, KV tile 1 the full tiles 0 and 1.
  const std::map<std::string, std::string> sound = {
      {"mask_block_cnt", "1+0"}, {"mask_block_offset", "0+1"}, {"mask_block_idx", "0"},
      {"full_block_cnt", "1+2"}, {"full_block_offset", "0+1"}, {"full_block_idx", "1+0+1"}};
  const auto grid = [&](const char* key = "", const char* list = "") {
    auto lists = sound;
    if (*key != 0) lists.at(key) = list;
    std::string text = "csr:";
    for (const auto& [name, values] : lists)
      text += name + "=" + values + ",";
    text.pop_back();
    return tile(parse_mask(text), {2, 2}, {});
  };
  CHECK(grid() == test::tiles_problem({"pf", "ff"}, 1, 1).common_grid());
  const auto refused = [&](const char* key, const char* list, const char* words) {
    CAPTURE(key, list);
    expect_error([&] { (void)grid(key, list); }, words);
  };
  refused("mask_block_idx", "1", "tile (kv 0, q 1) is listed twice");
  refused("full_block_idx", "0+0+1", "tile (kv 0, q 0) is listed twice");
  refused("full_block_idx", "1+1+1", "tile (kv 1, q 1) is listed twice");
  refused("full_block_idx", "2+0+1", "full_block_idx[0] = 2 is no Q tile; there are 2");
  refused("full_block_idx", "1+0+-1", "full_block_idx[2] = -1 is no Q tile");
  refused("mask_block_idx", "2", "mask_block_idx[0] = 2 is no Q tile");
  refused("full_block_cnt", "1+3", "KV tile 1: full_block_offset 1 and _cnt 3 leave the 3 entries");
  refused("full_block_cnt", "-1+2", "KV tile 0: full_block_offset 0 and _cnt -1 leave");
  refused("full_block_offset", "-1+1", "KV tile 0: full_block_offset -1 and _cnt 1 leave");
  refused("full_block_offset", "0+4", "KV tile 1: full_block_offset 4 and _cnt 2 leave");
  refused("full_block_offset", "0+9223372036854775807", "leave the 3 entries");
  refused("full_block_cnt", "1+9223372036854775807", "leave the 3 entries");
  refused("full_block_cnt", "1", "full_block_cnt has 1 and full_block_offset 2 entries");
  refused("mask_block_offset", "0+1+1+1", "mask_block_offset 4 entries for 2 KV tiles");
  CHECK(grid("mask_block_offset", "0+1+1") == grid());
}

TEST_CASE("a tile may be longer than its sequence, up to the longest sequence") {
  for (const char* mask : {"full", "causal", "sliding:left=2,right=0", "prefix:length=3",
                           "document:lengths=1+2+4", "document:lengths=1+2+4,causal=true",
                           "block-causal:q_blocks=0+0+1+1+2+2+2,kv_blocks=0+1+1+1+2+2+2"}) {
    CAPTURE(mask);
    for (const std::int64_t size : {std::int64_t{7}, std::int64_t{8}, kMaxTokens}) {
      const TileGrid grid = tile(parse_mask(mask), {7, 7}, {.q = size, .kv = size});
      const TileGrid rows = tile(parse_mask(mask), {7, 7}, {.q = 1, .kv = size});
      CHECK(grid.live_tiles() == 1);
      CHECK(rows.live_tiles() == 7);
    }
    for (const std::int64_t size : {kMaxTokens + 1, std::int64_t{1} << 62, INT64_MAX}) {
      expect_error(
          [&] {
            (void)tile(parse_mask(mask), {7, 7}, {.q = 1, .kv = size});
          },
          "key tile size " + std::to_string(size) + " is above 67108864 tokens");
      expect_error(
          [&] {
            (void)tile(parse_mask(mask), {7, 7}, {.q = size, .kv = 1});
          },
          "query tile size");
    }
    for (const std::int64_t size : {std::int64_t{0}, std::int64_t{-1}, INT64_MIN}) {
      expect_error(
          [&] {
            (void)tile(parse_mask(mask), {7, 7}, {.q = 1, .kv = size});
          },
          "must be 1 or more");
    }
  }
}

}  // namespace
}  // namespace stagger
