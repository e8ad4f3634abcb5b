// Masks by tokens: FlashMask's columns, MagiAttention's slices and sequences of several lengths.

#include "core/text.hpp"
#include "tests/formats/imported.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random.hpp"

#include <string>
#include <vector>

namespace stagger::formats {
namespace {

/// [1, 1, keys, columns] from columns.
Bundle flashmask(const std::vector<Elements>& columns) {
  Elements elements;
  for (std::size_t key = 0; key < columns.front().size(); ++key) {
    for (const Elements& column : columns)
      elements.push_back(column[key]);
  }
  return bundle_of(
      {{"startend_row_indices",
        ints({1, 1, std::ssize(columns.front()), std::ssize(columns)}, std::move(elements))}});
}

TEST_CASE("FlashMask's columns are read: the examples of formats.md") {
  const TileShape two{2, 2};
  const Elements ends = {5, 5, 5, 5, 5, 8, 8, 8, 16, 16, 16, 16, 16, 16, 16, 16};
  CHECK(rows_of(read(flashmask({ends})), two) ==
        std::vector<std::string>{"pfp.....", ".pp.....", "..pp....", "...p....", "....pfff",
                                 ".....pff", "......pf", ".......p"});
  const Elements begins = {0, 0, 0, 0, 0, 5, 5, 5, 8, 8, 8, 8, 8, 8, 8, 8};
  CHECK(rows_of(read(flashmask({ends, begins}), {.causal = false}), two) ==
        std::vector<std::string>{"ffp.....", "ffp.....", "pppp....", "..pf....", "....ffff",
                                 "....ffff", "....ffff", "....ffff"});
  CHECK(refusal_of(flashmask({ends, begins})).find("--mask-causal true or false") !=
        std::string::npos);
  Elements window;
  for (std::int64_t key = 0; key < 16; ++key)
    window.push_back(std::min<std::int64_t>(key + 6, 16));
  CHECK(rows_of(read(flashmask({window})), two) == kW8);
  const Elements never(16, 16);
  const Elements none(16, 0);
  Elements prefix = none;
  for (std::int64_t key = 5; key < 16; ++key)
    prefix[static_cast<std::size_t>(key)] = key;
  CHECK(rows_of(read(flashmask({never, prefix}), {.causal = false}), two) ==
        std::vector<std::string>{"ffffffff", "ffffffff", "pppfffff", "...pffff", "....pfff",
                                 ".....pff", "......pf", ".......p"});
  const Elements lts = {16, 16, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 16, 16, 16};
  const Elements uts = {0, 0, 0, 0, 0, 0, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2};
  const Elements ute = {0, 0, 0, 0, 0, 0, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  CHECK(rows_of(read(flashmask({lts, never, uts, ute})), two) ==
        std::vector<std::string>{"ffffffff", "fffp....", "ffffp...", "fpfffp..", "f.pfffp.",
                                 "f..pfffp", "f...pfff", "f....pff"});
  CHECK(refusal_of(flashmask({ends, ends, ends}), {.causal = true}).find("3 columns") !=
        std::string::npos);
}

TEST_CASE("tiles that FlashMask's kernel visits although they are empty are counted") {
  // Keys 2, 3 are masked by the diagonal for query 0, 1, and below it for 1 on: nobody sees them in
  // tile (kv 1, q 0), (kv 1, q 1).
  const ImportedMask imported = read(flashmask({{4, 4, 2, 2}}), {.shape = {.q = 4, .kv = 2}});
  CHECK(says(imported, "1 empty tile that its kernel visits"));
  const ImportedMask window = read(flashmask({{4, 4, 4, 4}}), {.shape = {.q = 2, .kv = 2}});
  CHECK(says(window, "0 empty tiles that its kernel visits"));
  // Where either side of the tiles is open there are none to count; one token is a side.
  for (const std::int64_t q : {0, 1, 2}) {
    for (const std::int64_t kv : {0, 1, 2}) {
      const ImportedMask sides = read(flashmask({{4, 4, 2, 2}}), {.shape = {.q = q, .kv = kv}});
      CAPTURE(q, kv);
      CHECK(says(sides, " that its kernel visits") == (q > 0 && kv > 0));
    }
  }
}

/// One head's columns, each of which says for a key from which query on, or up to which, nothing.
struct Intervals {
  bool causal;
  Elements lts, lte, uts, ute;

  [[nodiscard]] bool attends(std::int64_t query, std::size_t key) const {
    if (query >= lts[key] && query < lte[key]) return false;
    if (causal) return query >= static_cast<std::int64_t>(key);
    return query < uts[key] || query >= ute[key];
  }
  /// Whether one interval, or the diagonal, rules these queries out by its bounds over these keys.
  [[nodiscard]] bool ruled_out(std::int64_t first, std::int64_t last, std::size_t begin,
                               std::size_t end) const {
    bool below = true;
    bool above = !causal;
    for (std::size_t key = begin; key < end; ++key) {
      below = below && lts[key] <= first && lte[key] > last;
      above = above && uts[key] <= first && ute[key] > last;
    }
    return below || above || (causal && last < static_cast<std::int64_t>(begin));
  }
};

TEST_CASE("empty tiles that FlashMask's kernel visits are those that no interval alone rules out") {
  test::Random random(test::seed(61));
  std::int64_t visited_in_all = 0;
  for (int round = 0; round < 400; ++round) {
    const std::int64_t tokens = random.between(3, 9);
    const std::int64_t form = random.between(0, 3);  // causal of one column, of two; both ways
    const TileShape shape{.q = random.between(1, 3), .kv = random.between(1, 3)};
    Elements elements;
    std::int64_t visited = 0;
    for (int head = 0; head < 2; ++head) {
      Intervals one{.causal = form < 2, .lts = {}, .lte = {}, .uts = {}, .ute = {}};
      const std::int64_t most = random.between(0, tokens);
      for (std::int64_t key = 0; key < tokens; ++key) {
        const auto put = [&](Elements& column, bool is_there, std::int64_t absent) {
          column.push_back(is_there ? random.between(0, most) : absent);
          if (is_there) elements.push_back(column.back());
        };
        put(one.lts, true, 0);
        put(one.lte, form == 1 || form == 3, tokens);
        put(one.uts, form == 3, 0);
        put(one.ute, form >= 2, 0);
      }
      for (std::int64_t first = 0; first < tokens; first += shape.q) {
        const std::int64_t last = std::min(first + shape.q, tokens) - 1;
        for (std::int64_t key = 0; key < tokens; key += shape.kv) {
          const auto begin = static_cast<std::size_t>(key);
          const auto end = static_cast<std::size_t>(std::min(key + shape.kv, tokens));
          bool live = false;
          for (std::int64_t query = first; query <= last; ++query)
            for (std::size_t each = begin; each < end; ++each)
              live = live || one.attends(query, each);
          visited += !live && !one.ruled_out(first, last, begin, end) ? 1 : 0;
        }
      }
    }
    const std::int64_t columns = std::ssize(elements) / tokens / 2;
    const Bundle bundle =
        bundle_of({{"startend_row_indices", ints({1, 2, tokens, columns}, std::move(elements))}});
    CAPTURE(round, form, tokens, shape.q, shape.kv);
    REQUIRE(says(read(bundle, {.shape = shape, .causal = form < 2}),
                 counted(visited, "empty tile") + " that its kernel visits"));
    visited_in_all += visited;
  }
  CHECK(visited_in_all > 100);
}

TEST_CASE("FlashMask's columns of too many ranges of keys are refused before any is made") {
  // Closed forms, each of which reaches 2^26 ranges and goes beyond with one query more.
  const auto refusal = [](const Bundle& bundle, std::int64_t queries, bool causal) {
    return refusal_of(bundle, {.lengths = {queries, 0}, .causal = causal});
  };
  const auto column = [](std::int64_t keys, std::int64_t even, std::int64_t odd) {
    Elements values;
    for (std::int64_t key = 0; key < keys; ++key)
      values.push_back(key % 2 == 0 ? even : odd);
    return values;
  };
  const std::int64_t keys = std::int64_t{1} << 14;
  const std::int64_t half = keys / 2;  // of which each is a range of its own to all that see it
  const std::int64_t all = keys * 2;   // beyond every query
  const Bundle odd = flashmask({column(keys, all, 0), column(keys, 0, 0)});
  CHECK(read(odd, {.lengths = {half, 0}, .causal = false}).lengths == Lengths{half, keys});
  CHECK(refusal(odd, half + 1, false) ==
        "x.npz: a mask of 67117056 ranges of keys, over all queries; at most 67108864 are "
        "supported");
  // Even keys are hidden from query 0 as well, which begins no range.
  const Bundle from_one = flashmask({column(keys, all, 0), column(keys, 1, 0)});
  CHECK(read(from_one, {.lengths = {half + 1, 0}, .causal = false}).lengths ==
        Lengths{half + 1, keys});
  CHECK(refusal(from_one, half + 2, false).find("a mask of 67117056 ranges") != std::string::npos);
  // More pairs than that are few ranges where nothing is hidden between them.
  const Bundle dense = flashmask({column(keys, all, all), column(keys, 0, 0)});
  CHECK(read(dense, {.lengths = {half, 0}, .causal = false}).lengths == Lengths{half, keys});
  // Even keys are hidden in queries 4 to 9 and 7 to 13 too: that is ten.
  const Bundle twice = flashmask(
      {column(keys, 4, 0), column(keys, 10, all), column(keys, 7, 0), column(keys, 14, 0)});
  CHECK(read(twice, {.lengths = {half + 10, 0}}).lengths == Lengths{half + 10, keys});
  CHECK(refusal(twice, half + 11, false).find("a mask of 67117056 ranges") != std::string::npos);
  // Query q sees the even keys up to its own: q / 2 + 1 ranges.
  const auto causal = [&](std::int64_t tokens) { return flashmask({column(tokens, all, 0)}); };
  CHECK(read(causal(keys - 1)).lengths == Lengths{keys - 1, keys - 1});
  CHECK(refusal(causal(keys), 0, true).find("a mask of 67117056 ranges") != std::string::npos);
}

TEST_CASE("FlashMask's columns of KV heads are those of the heads that share them") {
  // Causal documents of 2 + 2 tokens, and no documents.
  const Bundle bundle =
      bundle_of({{"startend_row_indices", ints({1, 2, 4, 1}, {2, 2, 4, 4, 4, 4, 4, 4})}});
  const ImportedMask alone = read(bundle);
  CHECK(rows_of(alone, {2, 2}) == std::vector<std::string>{"p.", ".p", "|", "pf", ".p"});
  CHECK(alone.mask.integers("heads") == std::vector<std::int64_t>{0, 1});
  const auto heads_of = [&](std::int64_t heads, std::int64_t heads_kv) {
    return read(bundle, {.heads = heads, .heads_kv = heads_kv}).mask.integers("heads");
  };
  CHECK(heads_of(8, 2) == std::vector<std::int64_t>{0, 0, 0, 0, 1, 1, 1, 1});
  CHECK(heads_of(8, 4) == std::vector<std::int64_t>{0, 0, 1, 1});  // a batch of two
  CHECK(heads_of(8, 0) == std::vector<std::int64_t>{0, 1});
  CHECK(refusal_of(bundle, {.heads = 9, .heads_kv = 3}).find("are none for --heads 9") !=
        std::string::npos);
  CHECK(rows_of(read(bundle, {.head = 1}), {2, 2}) == std::vector<std::string>{"pf", ".p"});
}

/// Columns of 256 keys that every query sees, and a block mask of 2 x 2 tiles.
Bundle with_block_mask(std::int64_t batches, std::int64_t heads, std::vector<std::int64_t> shape,
                       Elements kept) {
  const auto count = static_cast<std::size_t>(batches * heads * 256);
  return bundle_of({{"startend_row_indices", ints({batches, heads, 256, 1}, Elements(count, 256))},
                    {"block_mask", ints(std::move(shape), std::move(kept))}});
}

TEST_CASE("a block mask beside FlashMask's columns is each head's own, or one for all of an axis") {
  const TileShape shape{.q = 128, .kv = 128};
  // Each mask keeps other tiles, so that a place says which it is: of [batches, heads] in order.
  const std::vector<Elements> keeps = {{1, 0, 0, 0}, {0, 0, 1, 0}, {0, 0, 0, 1}, {1, 0, 1, 0}};
  const std::vector<std::string> tiles = {"p. ..", ".f ..", ".. .p", "pf .."};
  struct Case {
    std::int64_t batches, heads;             ///< of the columns
    std::int64_t kept_batches, kept_heads;   ///< of the block mask
    std::vector<std::size_t> expected = {};  ///< which of `keeps`, by batch and head
  };
  for (const Case& each : {Case{1, 1, 1, 1, {0}}, Case{1, 1, 1, 2, {0, 1}},
                           Case{1, 1, 2, 1, {0, 1}}, Case{1, 1, 2, 2, {0, 1, 2, 3}},
                           Case{2, 2, 1, 2, {0, 1, 0, 1}}, Case{2, 2, 2, 1, {0, 0, 1, 1}},
                           Case{2, 1, 2, 2, {0, 1, 2, 3}}, Case{1, 2, 2, 1, {0, 0, 1, 1}},
                           Case{2, 2, 2, 2, {0, 1, 2, 3}}, Case{2, 2, 1, 1, {0, 0, 0, 0}}}) {
    Elements kept;
    for (std::int64_t mask = 0; mask < each.kept_batches * each.kept_heads; ++mask) {
      const Elements& own = keeps[static_cast<std::size_t>(mask)];
      kept.insert(kept.end(), own.begin(), own.end());
    }
    const Bundle bundle =
        with_block_mask(each.batches, each.heads, {each.kept_batches, each.kept_heads, 2, 2}, kept);
    CAPTURE(each.batches, each.heads, each.kept_batches, each.kept_heads);
    for (std::size_t place = 0; place < each.expected.size(); ++place) {
      const ImportedMask one =
          read(bundle, {.shape = shape, .head = static_cast<std::int64_t>(place)});
      const std::vector<std::string> rows = rows_of(one, shape);
      CAPTURE(place);
      CHECK(rows[0] + " " + rows[1] == tiles[each.expected[place]]);
    }
    CHECK(refusal_of(bundle, {.shape = shape,
                              .head = static_cast<std::int64_t>(each.expected.size())}) != "");
  }
  const Bundle of_heads = with_block_mask(1, 1, {1, 2, 2, 2}, {0, 0, 1, 0, 0, 0, 0, 1});
  CHECK(rows_of(read(of_heads, {.shape = shape, .heads = 4, .heads_kv = 2}), shape) ==
        std::vector<std::string>{".f", "..", "|", "..", ".p"});
}

TEST_CASE("empty tiles that FlashMask's kernel visits are counted once for each column") {
  // Of four Q tiles the first is hidden by two intervals together.
  Elements columns;
  for (int key = 0; key < 512; ++key)
    columns.insert(columns.end(), {64, 512, 0, 64});
  for (const std::int64_t heads : {1, 4}) {
    const Bundle bundle =
        bundle_of({{"startend_row_indices", ints({1, 1, 512, 4}, columns)},
                   {"block_mask",
                    ints({1, heads, 4, 4}, Elements(static_cast<std::size_t>(heads) * 16, 1))}});
    CHECK(says(read(bundle, {.shape = {.q = 128, .kv = 128}}),
               "4 empty tiles that its kernel visits"));
  }
}

TEST_CASE("a block mask beside FlashMask's columns that does not fit them is refused") {
  const auto refusal = [](std::int64_t heads, std::vector<std::int64_t> shape, Elements kept) {
    return refusal_of(with_block_mask(1, heads, std::move(shape), std::move(kept)),
                      {.shape = {.q = 128, .kv = 128}});
  };
  CHECK(refusal(1, {0, 1, 2, 2}, {}) == "x.npz: it has no batch or no head");
  CHECK(refusal(2, {1, 0, 2, 2}, {}) ==
        "x.npz: block_mask is of 1 batch of 0 heads, and startend_row_indices of 1 batch of 2 "
        "heads");
  CHECK(refusal(2, {1, 3, 2, 2}, Elements(12, 1)) ==
        "x.npz: block_mask is of 1 batch of 3 heads, and startend_row_indices of 1 batch of 2 "
        "heads");
  CHECK(refusal(1, {1, 1, 2, 2}, {1, 0, 2, 1}) ==
        "x.npz: block_mask[0,0,1,0] = 2, neither 0 nor 1");
  CHECK(refusal(1, {1, 1, 2, 2}, {1, 0, 1, 1}).empty());
  CHECK(refusal(1, {1, 1, 3, 2}, Elements(6, 1)) ==
        "x.npz: block_mask is of 3 x 2 Q by KV tiles, where the columns have 2 x 2");
  // 2^13 batches of 2^13 heads and one: more masks together than a file has numbers.
  const std::int64_t many = std::int64_t{1} << 13;
  const Bundle wide =
      bundle_of({{"startend_row_indices", ints({many, 1, 1, 1}, Elements(1 << 13, 1))},
                 {"block_mask", ints({1, many + 1, 1, 1}, Elements((1 << 13) + 1, 1))}});
  CHECK(refusal_of(wide, {.shape = {.q = 128, .kv = 128}}).find("are more than 67108864") !=
        std::string::npos);
}

TEST_CASE("MagiAttention's slices are read, and what two of them share is said") {
  const Bundle w8 = bundle_of({{"q_ranges", ints({2, 2}, {0, 5, 5, 16})},
                               {"k_ranges", ints({2, 2}, {0, 5, 0, 16})},
                               {"attn_type_map", ints({2}, {1, 3})}});
  CHECK(rows_of(read(w8), {2, 2}) == kW8);
  CHECK(says(read(w8), "no pair of tokens is in two slices"));
  const std::string json =
      R"({"q_ranges": [[0, 5], [5, 16]], "k_ranges": [[0, 5], [0, 16]],
          "attn_type_map": ["causal", "bi_causal"]})";
  CHECK(rows_of(read_mask_file(json, "x.json", {}), {2, 2}) == kW8);
  const Bundle shared = bundle_of({{"q_ranges", ints({2, 2}, {0, 4, 2, 4})},
                                   {"k_ranges", ints({2, 2}, {0, 4, 3, 6})},
                                   {"attn_type_map", ints({2}, {0, 0})}});
  CHECK(says(read(shared), "2 pairs of tokens are in two slices or more"));
  CHECK(says(read(shared), "(query 2, key 3) in slices 0 and 1"));
  const Bundle everywhere = bundle_of(
      {{"q_ranges", ints({2, 2}, {0, 2, 0, 2})}, {"k_ranges", ints({2, 2}, {0, 3, 2, 4})}});
  CHECK(says(read(everywhere), "2 pairs of tokens are in two slices or more"));
  // A pair in three slices is one pair.
  const Bundle thrice = bundle_of({{"q_ranges", ints({3, 2}, {0, 1, 0, 1, 0, 1})},
                                   {"k_ranges", ints({3, 2}, {0, 3, 1, 4, 2, 4})}});
  CHECK(says(read(thrice), "3 pairs of tokens are in two slices or more"));
  CHECK(says(read(everywhere), "(query 0, key 2) in slices 0 and 1"));
  CHECK(refusal_of(
            bundle_of({{"q_ranges", ints({1, 2}, {3, 1})}, {"k_ranges", ints({1, 2}, {0, 4})}}))
            .find("q of slice 0 is [3, 1)") != std::string::npos);
  CHECK(refusal_of(
            bundle_of({{"q_ranges", ints({1, 3}, {0, 1, 2})}, {"k_ranges", ints({1, 2}, {0, 4})}}))
            .find("not [slices,2]") != std::string::npos);
}

TEST_CASE("sequences begin a tile each") {
  const Bundle bundle = bundle_of({{"cu_seqlens", ints({4}, {0, 5, 8, 16})}});
  const ImportedMask imported = read(bundle, {.shape = {.q = 2, .kv = 2}, .causal = true});
  CHECK(imported.lengths == Lengths{18, 18});
  CHECK(rows_of(imported, {2, 2}) ==
        std::vector<std::string>{"pfp......", ".pp......", "..p......", "...pp....", "....p....",
                                 ".....pfff", "......pff", ".......pf", "........p"});
  CHECK(says(imported, "window: left=all, right=0, bottom-right aligned in each"));
  CHECK(refusal_of(bundle_of({{"cu_seqlens", ints({3}, {0, 5, 4})}}))
            .find("cu_seqlens[2] = 4 after 5") != std::string::npos);
  CHECK(refusal_of(bundle_of({{"cu_seqlens", ints({2}, {0, 5})}, {"max_seqlen_q", ints({}, {4})}}))
            .find("max_seqlen_q is 4, and sequence 0 has 5 tokens") != std::string::npos);
  CHECK(says(read(bundle_of(
                 {{"cu_seqlens_q", ints({3}, {0, 0, 4})}, {"cu_seqlens_k", ints({3}, {0, 2, 6})}})),
             "1 sequence of no queries"));
}

TEST_CASE("what a file says of keys is heeded under either of their names, and not under both") {
  const Tensor sums = ints({3}, {0, 4, 8});
  const auto with = [&](const std::vector<std::pair<std::string, Tensor>>& more) {
    std::vector<std::pair<std::string, Tensor>> all = {{"cu_seqlens_q", sums}};
    all.insert(all.end(), more.begin(), more.end());
    return bundle_of(std::move(all));
  };
  const Tensor used = ints({2}, {2, 3});
  for (const std::string sums_of : {"cu_seqlens_k", "cu_seqlens_kv", "cu_seqlens"}) {
    for (const std::string end : {"k", "kv"}) {
      CAPTURE(sums_of, end);
      const ImportedMask shorter = read(with({{sums_of, sums}, {"seqused_" + end, used}}));
      CHECK(shorter.mask.integers("kv_lengths") == Elements{2, 3});
      CHECK(shorter.mask.integers("q_lengths") == Elements{4, 4});
      CHECK(refusal_of(with({{sums_of, sums}, {"max_seqlen_" + end, ints({}, {3})}})) ==
            "x.npz: max_seqlen_" + end + " is 3, and sequence 0 has 4 tokens");
    }
    CHECK(refusal_of(with({{sums_of, sums}, {"seqused_k", used}, {"seqused_kv", used}})) ==
          "x.npz: seqused_k and seqused_kv are there, which are names of the same");
  }
  CHECK(refusal_of(with({{"cu_seqlens_k", sums}, {"cu_seqlens_kv", sums}})) ==
        "x.npz: cu_seqlens_k and cu_seqlens_kv are there, which are names of the same");
  CHECK(refusal_of(with({{"cu_seqlens_k", sums}, {"seqused_k", ints({3}, {1, 1, 1})}})) ==
        "x.npz: seqused_k has 3 numbers for 2 sequences");
}

TEST_CASE("sums of lengths are of both sides, and of one dimension") {
  const Tensor sums = ints({3}, {0, 4, 8});
  CHECK(refusal_of(bundle_of({{"cu_seqlens_q", sums}})) ==
        "x.npz: cu_seqlens_k is missing, or cu_seqlens of both");
  CHECK(refusal_of(bundle_of({{"cu_seqlens", ints({2, 2}, {0, 4, 4, 8})}})) ==
        "x.npz: cu_seqlens has a shape of [2,2], not [sequences + 1]");
  CHECK(
      refusal_of(bundle_of({{"cu_seqlens_q", sums}, {"cu_seqlens_k", ints({1, 3}, {0, 4, 8})}})) ==
      "x.npz: cu_seqlens_k has a shape of [1,3], not [sequences + 1]");
}

TEST_CASE("sequences that have no lengths of queries, or use tokens that they lack, are refused") {
  const Tensor sums = ints({3}, {0, 4, 8});
  CHECK(refusal_of(bundle_of({{"cu_seqlens_k", sums}}), {.format = "cu-seqlens"})
            .find("cu_seqlens_q is missing, or cu_seqlens of both") != std::string::npos);
  for (const std::int64_t used : {-1, 0, 4, 5}) {
    const Bundle bundle = bundle_of({{"cu_seqlens_q", sums},
                                     {"cu_seqlens_k", sums},
                                     {"seqused_k", ints({2}, {3, used})},
                                     {"causal", ints({1}, {1})}});
    CAPTURE(used);
    const bool refused = refusal_of(bundle).find("seqused_k[1] = " + std::to_string(used) +
                                                 " of 4") != std::string::npos;
    CHECK(refused == (used < 0 || used > 4));
  }
}

}  // namespace
}  // namespace stagger::formats
