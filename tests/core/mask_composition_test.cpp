// Masks of which a query sees several ranges of keys, against their definitions pair by pair.

#include "core/error.hpp"
#include "core/files.hpp"
#include "core/limits.hpp"
#include "core/tiling.hpp"
#include "core/token_mask.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random.hpp"

#include <functional>

namespace stagger {
namespace {

using test::Random;

using Sees = std::function<bool(std::int64_t q, std::int64_t k)>;

/// A mask, and what it means.
struct Meant {
  Mask mask;
  Sees sees;
};

Meant window(Random& random, const Lengths& lengths) {
  const std::int64_t shift = lengths.kv - lengths.q;
  const std::int64_t left = random.between(-1, 9);
  const std::int64_t right = random.between(-1, 9);
  return {make_mask("sliding", {{"left", left}, {"right", right}}), [=](auto q, auto k) {
            return (left == -1 || k >= q + shift - left) && (right == -1 || k <= q + shift + right);
          }};
}

Meant global(Random& random, const Lengths& lengths) {
  const std::int64_t shift = lengths.kv - lengths.q;
  const std::int64_t first = random.between(0, 4);
  const bool symmetric = random.chance(2);
  std::vector<std::int64_t> tokens;
  for (std::int64_t count = random.between(0, 4); count > 0; --count)
    tokens.push_back(random.between(0, lengths.kv - 1));
  const auto is = [=](std::int64_t key) {
    return (key >= 0 && key < first) ||
           std::find(tokens.begin(), tokens.end(), key) != tokens.end();
  };
  return {make_mask("global", {{"first", first}, {"tokens", tokens}, {"symmetric", symmetric}}),
          [=](auto q, auto k) { return is(k) || (symmetric && is(q + shift)); }};
}

Meant slices(Random& random, const Lengths& lengths) {
  std::vector<std::int64_t> q;
  std::vector<std::int64_t> kv;
  std::vector<std::int64_t> types;
  const auto range = [&](std::vector<std::int64_t>& ends, std::int64_t most) {
    const std::int64_t begin = random.between(0, most);
    ends.push_back(begin);
    ends.push_back(random.between(begin, most));
  };
  for (std::int64_t count = random.between(0, 6); count > 0; --count) {
    range(q, lengths.q);
    range(kv, lengths.kv);
    types.push_back(random.between(0, 3));
  }
  return {make_mask("slices", {{"q", q}, {"kv", kv}, {"types", types}}), [=](auto query, auto key) {
            for (std::size_t at = 0; at < types.size(); ++at) {
              const std::int64_t a = query - q[2 * at];
              const std::int64_t b = key - kv[2 * at];
              const std::int64_t sq = q[2 * at + 1] - q[2 * at];
              const std::int64_t sk = kv[2 * at + 1] - kv[2 * at];
              if (a < 0 || a >= sq || b < 0 || b >= sk) continue;
              const bool causal = b <= a + sk - sq;
              const bool inverse = b >= a;
              if (types[at] == 0 || (types[at] == 1 && causal) || (types[at] == 2 && inverse) ||
                  (types[at] == 3 && causal && inverse)) {
                return true;
              }
            }
            return false;
          }};
}

Meant flashmask(Random& random, const Lengths& lengths) {
  const std::int64_t form = random.between(0, 3);
  const bool causal = form < 2;
  std::vector<std::vector<std::int64_t>> columns(4);
  for (auto& column : columns) {
    for (std::int64_t key = 0; key < lengths.kv; ++key)
      column.push_back(random.between(0, lengths.q + 1));
  }
  const auto used = [&](std::size_t column) {
    const bool is =
        column == 0 || form == 3 || (form == 1 && column == 1) || (form == 2 && column == 3);
    return is ? columns[column] : std::vector<std::int64_t>{};
  };
  return {make_mask("flashmask", {{"causal", causal},
                                  {"lts", used(0)},
                                  {"lte", used(1)},
                                  {"uts", used(2)},
                                  {"ute", used(3)}}),
          [=](auto q, auto k) {
            const auto at = static_cast<std::size_t>(k);
            const bool below =
                q >= columns[0][at] && (form == 0 || form == 2 || q < columns[1][at]);
            const bool above = !causal && q < columns[3][at] && (form == 2 || q >= columns[2][at]);
            const bool future = causal && q < k - (lengths.kv - lengths.q);
            return !below && !above && !future;
          }};
}

/// Tiles, of which a partial one is causal from its own corner.
Meant block_sparse(Random& random, const Lengths& lengths, const TileShape& shape) {
  std::vector<std::string> rows(at((lengths.kv + shape.kv - 1) / shape.kv));
  for (std::string& row : rows) {
    for (std::int64_t q = 0; q < lengths.q; q += shape.q)
      row += "fp."[random.between(0, 2)];
  }
  return {make_mask("tiles", {{"rows", rows}}), [=](auto q, auto k) {
            const char kind = rows[at(k / shape.kv)][at(q / shape.q)];
            return kind == 'f' || (kind == 'p' && k % shape.kv <= q % shape.q);
          }};
}

/// Sequences that take all tokens, each with a window aligned at its bottom right.
Meant varlen(Random& random, const Lengths& lengths) {
  const std::int64_t sequences = random.between(1, 4);
  const auto parts_of = [&](std::int64_t tokens) {
    std::vector<std::int64_t> parts;
    for (std::int64_t left = sequences - 1; left >= 0; --left) {
      parts.push_back(left == 0 ? tokens : random.between(0, tokens));
      tokens -= parts.back();
    }
    return parts;
  };
  const std::vector<std::int64_t> q = parts_of(lengths.q);
  const std::vector<std::int64_t> kv = parts_of(lengths.kv);
  const bool causal = random.chance(2);
  const std::int64_t left = random.between(-1, 5);
  const std::int64_t right = random.between(-1, 5);
  return {make_mask("varlen", {{"q_lengths", q},
                               {"kv_lengths", kv},
                               {"causal", causal},
                               {"left", left},
                               {"right", right}}),
          [=](auto query, auto key) {
            std::size_t place = 0;
            for (; query >= q[place]; ++place) {
              query -= q[place];
              key -= kv[place];
            }
            const std::int64_t own = query + kv[place] - q[place];
            return key >= 0 && key < kv[place] && (left == -1 || key >= own - left) &&
                   (causal ? key <= own : right == -1 || key <= own + right);
          }};
}

Meant any(Random& random, const Lengths& lengths, const TileShape& shape, int depth) {
  constexpr int kDeepest = 2;
  if (depth < kDeepest && random.chance(5)) return block_sparse(random, lengths, shape);
  if (random.chance(5)) return varlen(random, lengths);
  switch (random.between(0, depth > 0 ? 5 : 3)) {
    case 0:
      return window(random, lengths);
    case 1:
      return global(random, lengths);
    case 2:
      return slices(random, lengths);
    case 3:
      return flashmask(random, lengths);
    default:
      break;
  }
  const bool both = random.chance(2);
  std::vector<Mask> masks;
  std::vector<Sees> parts;
  for (std::int64_t count = random.between(2, 3); count > 0; --count) {
    Meant part = any(random, lengths, shape, depth - 1);
    masks.push_back(std::move(part.mask));
    parts.push_back(std::move(part.sees));
  }
  return {make_mask(both ? "and" : "or", {{"of", std::move(masks)}}), [=](auto q, auto k) {
            const auto sees = [&](const Sees& part) { return part(q, k); };
            return both ? std::all_of(parts.begin(), parts.end(), sees)
                        : std::any_of(parts.begin(), parts.end(), sees);
          }};
}

TEST_CASE("masks of several ranges, and masks of masks, are what they mean, pair by pair") {
  Random random(test::seed(20260822));
  std::int64_t several = 0;
  for (int round = 0; round < 800; ++round) {
    const Lengths lengths{.q = random.between(1, 24), .kv = random.between(1, 24)};
    const TileShape shape{.q = random.between(1, 7), .kv = random.between(1, 7)};
    const Meant meant = any(random, lengths, shape, 2);
    CAPTURE(round, lengths.q, lengths.kv, shape.q, shape.kv, mask_words(meant.mask));
    const Problem problem = make_problem(meant.mask, lengths, shape, 1, 1);
    const TokenMask mask(problem);
    std::int64_t pairs = 0;
    bool has_several = false;
    for (KvTile kv{0}; kv.value < problem.kv_tiles(); ++kv) {
      for (QTile q{0}; q.value < problem.q_tiles(); ++q) {
        std::int64_t seen = 0;
        std::int64_t all = 0;
        for (std::int64_t query = q.value * shape.q;
             query < std::min((q.value + 1) * shape.q, lengths.q); ++query) {
          std::int64_t ranges = 0;
          mask.each_range(query, kv, [&](const KeyRange&) { ++ranges; });
          has_several = has_several || ranges > 1;
          for (std::int64_t key = kv.value * shape.kv;
               key < std::min((kv.value + 1) * shape.kv, lengths.kv); ++key) {
            ++all;
            const bool sees = meant.sees(query, key);
            seen += sees ? 1 : 0;
            REQUIRE(mask.sees(query, key) == sees);
          }
        }
        pairs += seen;
        REQUIRE(problem.common_grid().kind(kv, q) == (seen == 0     ? TileKind::empty
                                                      : seen == all ? TileKind::full
                                                                    : TileKind::partial));
      }
    }
    REQUIRE(mask.pairs() == pairs);
    several += has_several ? 1 : 0;
    // In words and in JSON it is the same mask.
    REQUIRE(read_mask_json(mask_json(meant.mask).text(), "again") == meant.mask);
    REQUIRE(tile(parse_mask(mask_words(meant.mask)), lengths, shape) == problem.common_grid());
  }
  CHECK(several > 50);
}

TEST_CASE("& binds closer than |, and parentheses closer than both") {
  const auto words = [](const char* text) { return mask_words(parse_mask(text)); };
  CHECK(words("full&causal|full") == "full & causal | full");
  CHECK(words("full | causal & full") == "full | causal & full");
  CHECK(words("( full | causal ) & full") == "(full | causal) & full");
  CHECK(words("((full))") == "full");
  CHECK(words("full & (causal & full)") == "full & (causal & full)");
  CHECK(describe(make_problem(parse_mask("(full | causal) & full"), {4, 4}, {}, 1, 1)) ==
        "(full or causal) and full, 4 KV x 4 Q tiles, 1 head on 1 SM: 16 tasks");
  for (const char* wrong : {"full &", "& full", "(full", "full)", "full | | full", "()", "(",
                            "and:of=full", "full (causal)"}) {
    CAPTURE(wrong);
    CHECK_THROWS_AS(parse_mask(wrong), Error);
  }
}

TEST_CASE("what composed masks cannot be is said in words") {
  const auto read = [](const char* text) {
    return [text] { static_cast<void>(read_mask_json(text, "m")); };
  };
  CHECK_THROWS_WITH(read(R"({"kind": "and", "of": [{"kind": "full"}]})")(),
                    "m: /: and: of must be two masks or more");
  CHECK_THROWS_WITH(read(R"({"kind": "or", "of": [{"kind": "full"}, {"kind": "ful"}]})")(),
                    Catch::Contains("m: /of/1: unknown mask 'ful'"));
  CHECK_THROWS_WITH(read(R"({"kind": "or", "of": [1, 2]})")(),
                    Catch::Contains("of must be a list of masks"));
  for (const char* const kind : {"and", "or"}) {
    for (const char* const keys : {"", ":", ":of=full"}) {
      CHECK_THROWS_WITH(parse_mask(std::string(kind) + keys),
                        Catch::StartsWith(std::string(kind) + ": masks are joined by & and |: "));
    }
  }
  std::string many = "full";
  for (int part = 0; part < kMaxMaskParts; ++part)
    many += " & full";
  CHECK_THROWS_WITH(parse_mask(many), "a mask of more than 64 masks");
  CHECK_THROWS_AS(parse_mask(std::string(100, '(') + "full" + std::string(100, ')')), Error);
  const auto tiles = [](const std::string& text, const Lengths& lengths) {
    return [=] { static_cast<void>(tile(parse_mask(text), lengths, {2, 2})); };
  };
  CHECK_THROWS_WITH(tiles("global:tokens=9", {4, 4})(),
                    "global: tokens[0] = 9 is no key; there are 4");
  CHECK_THROWS_WITH(tiles("slices:q=0+9,kv=0+4", {4, 4})(),
                    "slices: q of slice 0 is [0, 9), not within [0, 4)");
  CHECK_THROWS_WITH(tiles("slices:q=-1+3,kv=0+4", {4, 4})(),
                    "slices: q of slice 0 is [-1, 3), not within [0, 4)");
  CHECK_THROWS_WITH(tiles("slices:q=0+3,kv=0+4+-1+2", {4, 4})(),
                    Catch::Contains("2 and 4 numbers"));
  CHECK_THROWS_WITH(tiles("slices:q=0+3+0+3,kv=0+4+-1+2", {4, 4})(),
                    "slices: kv of slice 1 is [-1, 2), not within [0, 4)");
  CHECK_THROWS_WITH(tiles("flashmask:lts=1+2+3+4,lte=4+4+4,causal=true", {4, 4})(),
                    "flashmask: lte has 3 entries for 4 keys");
  // More queries in all slices than there may be ranges: each of 64 slices has all queries.
  std::string q = "0+1048577";
  std::string kv = "0+1";
  for (int slice = 1; slice < 64; ++slice) {
    q += "+0+1048577";
    kv += "+0+1";
  }
  CHECK_THROWS_WITH(
      [&] {
        static_cast<void>(
            tile(parse_mask("slices:q=" + q + ",kv=" + kv), {1'048'577, 1}, {4'096, 1}));
      }(),
      "slices of more than 67108864 queries in all");
  // Slices of the last queries are counted by their own queries alone.
  std::string last = "1048576+1048577";
  for (int slice = 1; slice < 64; ++slice)
    last += "+1048576+1048577";
  CHECK_NOTHROW(tile(parse_mask("slices:q=" + last + ",kv=" + kv), {1'048'577, 1}, {4'096, 1}));
  CHECK_THROWS_WITH(tiles("slices:q=0+4+1,kv=0+4", {4, 4})(),
                    Catch::Contains("they have 3 and 2 numbers"));
  for (const char* const type : {"-1", "4", "5"}) {
    CHECK_THROWS_WITH(tiles(std::string("slices:q=0+4+0+4,kv=0+4+0+4,types=0+") + type, {4, 4})(),
                      std::string("slices: types[1] = ") + type +
                          "; known: 0 full, 1 causal, 2 inverse causal, 3 both");
  }
  CHECK_THROWS_WITH(tiles("flashmask:lts=1+2+3+4", {4, 4})(), Catch::Contains("causal takes lts"));
  CHECK_THROWS_WITH(tiles("varlen:q_lengths=3+1", {5, 4})(),
                    Catch::Contains("the sequences take 4 queries and 4 keys"));
}

TEST_CASE("sequences are aligned to a token at least, and to no more than a problem has") {
  for (const char* const key : {"align_q", "align_kv"}) {
    for (const std::int64_t tokens : {std::int64_t{0}, kMaxTokens + 1}) {
      const std::string align = std::string(key) + "=" + std::to_string(tokens);
      CHECK_THROWS_WITH(implied_lengths(parse_mask("varlen:q_lengths=1," + align), {}),
                        Catch::Contains(std::string(key) + " = " + std::to_string(tokens) +
                                        ": must be 1 to " + std::to_string(kMaxTokens)));
    }
    CHECK_NOTHROW(implied_lengths(
        parse_mask("varlen:q_lengths=1," + std::string(key) + "=" + std::to_string(kMaxTokens)),
        {}));
  }
}

TEST_CASE("sequences begin at the multiples that are asked for, and each is aligned by itself") {
  const Mask mask =
      parse_mask("varlen:q_lengths=2+0+3,kv_lengths=3+1+2,causal=true,align_q=4,align_kv=2");
  CHECK(mask.family->implied(mask) == Lengths{7, 8});
  const auto rows = mask.family->rows(mask, {7, 8});
  REQUIRE(rows.size() == 7);
  const std::vector<KeyRange> expected = {{0, 2}, {0, 3}, {0, 0}, {0, 0}, {6, 6}, {6, 7}, {6, 8}};
  for (std::size_t query = 0; query < expected.size(); ++query) {
    CAPTURE(query);
    CHECK(rows[query] == expected[query]);
  }
}

TEST_CASE("masks by head are written after `heads`, and read back") {
  for (const char* words :
       {"heads; causal; full", "heads:heads=0+1+1; causal; sliding:left=2,right=0 & causal",
        "heads:heads=1+0; tiles:rows=ff+.f; (full | causal) & prefix:length=2"}) {
    const Mask mask = parse_mask(words);
    CAPTURE(words);
    CHECK(mask_words(mask) == words);
    CHECK(read_mask_json(mask_json(mask).line(), "again") == mask);
  }
  CHECK(mask_heads(parse_mask("heads; causal; full")) == 2);
  CHECK(mask_heads(parse_mask("heads:heads=0+1+1; causal; full")) == 3);
  CHECK(mask_heads(parse_mask("causal")) == 0);
  CHECK(mask_of(parse_mask("heads:heads=0+1+1; causal; full"), Head{4}) == make_mask("full"));
  const std::pair<const char*, const char*> wrong[] = {
      {"heads; causal", "of must be two masks or more"},
      {"heads", "of must be two masks or more"},
      {"heads:heads=0+2; causal; full", "heads: heads[1] = 2 is no mask; there are 2"},
      {"heads:heads=-1; causal; full", "heads[0] = -1 is no mask"},
      {"heads:of=1; causal; full", "masks follow it after ;"},
      {"heads:head=0; causal; full", "unknown key 'head'"},
      {"heads; causal;", "a mask is missing"},
      {"heads; causal; full)", "closes nothing"},
      {"causal; full", "masks by head follow `heads`"},
      {"heads; causal; heads; full; full", "comes first"},
      {"(heads; causal; full)", "comes first"},
      {"causal & heads", "comes first"}};
  for (const auto& [words, what] : wrong) {
    CAPTURE(words);
    CHECK_THROWS_WITH(parse_mask(words), Catch::Contains(what));
  }
  CHECK_THROWS_WITH(
      read_mask_json(R"({"kind": "and", "of": [{"kind": "full"}, {"kind": "heads", "of":
                         [{"kind": "full"}, {"kind": "causal"}]}]})",
                     "x"),
      Catch::Contains("a mask by head is a whole mask"));
  CHECK_THROWS_WITH(make_problem(parse_mask("heads; causal; full"), {4, 4}, {}, 3, 0),
                    Catch::Contains("masks for 2 heads, over and over, are none for 3"));
  CHECK_THROWS_AS(tile(parse_mask("heads; causal; full"), {4, 4}, {}), Error);
}

}  // namespace
}  // namespace stagger
