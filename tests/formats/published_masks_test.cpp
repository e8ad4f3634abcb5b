// Tile counts that others have published of their masks, or that their definitions give: full,
// partial and empty tiles by FlexAttention's rule of ragged tiles, and by FlashAttention-4's.

#include "core/formats/mask_export.hpp"
#include "core/formats/mask_import.hpp"
#include "core/problem.hpp"
#include "core/token_mask.hpp"
#include "tests/formats/imported.hpp"
#include "tests/support/catch.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace stagger::formats {
namespace {

struct Case {
  const char* what;
  Mask mask;
  Lengths lengths;
  TileShape shape;
  TileCounts flex;
  TileCounts in_bounds;
};

Mask slices(Elements q, Elements kv, Elements types = {}) {
  return make_mask("slices",
                   {{"q", std::move(q)}, {"kv", std::move(kv)}, {"types", std::move(types)}});
}

/// Pairs of blocks of `block` tokens, each causal in itself: i % block >= j % block.
Mask mini_causal(std::int64_t tokens, std::int64_t block) {
  Elements q;
  Elements kv;
  for (std::int64_t row = 0; row < tokens; row += block) {
    for (std::int64_t column = 0; column < tokens; column += block) {
      q.insert(q.end(), {row, row + block});
      kv.insert(kv.end(), {column, column + block});
    }
  }
  return slices(q, kv, Elements(q.size() / 2, 1));
}

/// Diagonals i - j = `first`, `first` + 2, ..., up to `last`: a slice each.
Mask diagonals(std::int64_t tokens, std::int64_t first, std::int64_t last) {
  Elements q;
  Elements kv;
  for (std::int64_t distance = first; distance <= last; distance += 2) {
    q.insert(q.end(),
             {std::max<std::int64_t>(distance, 0), tokens + std::min<std::int64_t>(distance, 0)});
    kv.insert(kv.end(),
              {std::max<std::int64_t>(-distance, 0), tokens - std::max<std::int64_t>(distance, 0)});
  }
  return slices(q, kv, Elements(q.size() / 2, 3));
}

/// Documents that see themselves, causally, and the whole document at the head of their group.
Mask shared_prefix(const Elements& lengths, const Elements& heads) {
  Elements begins = {0};
  for (const std::int64_t length : lengths)
    begins.push_back(begins.back() + length);
  Elements q;
  Elements kv;
  Elements types;
  for (std::size_t own = 0; own < lengths.size(); ++own) {
    const auto head = static_cast<std::size_t>(heads[own]);
    q.insert(q.end(), {begins[own], begins[own + 1]});
    kv.insert(kv.end(), {begins[own], begins[own + 1]});
    types.push_back(1);
    if (head == own) continue;
    q.insert(q.end(), {begins[own], begins[own + 1]});
    kv.insert(kv.end(), {begins[head], begins[head + 1]});
    types.push_back(0);
  }
  return slices(q, kv, types);
}

/// Noised blocks see themselves and the clean blocks before; clean ones, clean ones up to their
/// own.
Mask block_diffusion(std::int64_t tokens, std::int64_t block) {
  Elements q;
  Elements kv;
  for (std::int64_t begin = 0; begin < tokens; begin += block) {
    const std::int64_t end = std::min(begin + block, tokens);
    q.insert(q.end(), {begin, end, begin, end, tokens + begin, tokens + end});
    kv.insert(kv.end(), {begin, end, tokens, tokens + begin, tokens, tokens + end});
  }
  return slices(q, kv);
}

Mask block_causal_2k(bool varlen) {
  const Elements ends = {0, 256, 512, 1024, 1280, 1536, 1792, 2048};
  Elements q;
  Elements kv;
  for (std::size_t slice = 0; slice + 1 < ends.size(); ++slice) {
    q.insert(q.end(), {ends[slice], ends[slice + 1]});
    kv.insert(kv.end(), {varlen && slice >= 3 ? 1024 : 0, ends[slice + 1]});
  }
  return slices(q, kv);
}

Mask alternating(std::int64_t side, std::int64_t block) {
  Elements q;
  Elements kv;
  Elements types;
  for (std::int64_t slice = 0; slice < side * side; ++slice) {
    q.insert(q.end(), {slice / side * block, slice / side * block + block});
    kv.insert(kv.end(), {slice % side * block, slice % side * block + block});
    types.push_back(slice % 2);
  }
  return slices(q, kv, types);
}

Mask sparse_2k() {
  return slices(
      {0,    256,  0,    256,  0,    256,  256,  512,  256,  512,  512,  1024, 1024, 1280,
       1280, 1536, 1280, 1536, 1280, 1536, 1280, 1536, 1280, 1536, 1536, 1792, 1792, 2048},
      {0, 256, 512, 768, 1011, 1123, 0,    512,  777,  888,  0,    1024, 1024, 1280,
       0, 128, 555, 556, 777,  982,  1024, 1536, 1689, 1898, 1024, 1792, 1024, 2048});
}

std::vector<Case> cases() {
  const auto words = [](const char* text) { return parse_mask(text); };
  const TileShape wide{128, 128};
  const auto same = [](const char* what, Mask mask, Lengths lengths, TileShape shape,
                       TileCounts counts) {
    return Case{what, std::move(mask), lengths, shape, counts, counts};
  };
  const Lengths thousand{1024, 1024};
  return {
      same("1 causal", words("causal"), thousand, wide, {28, 8, 28}),
      same("2 causal, more keys", words("causal"), {512, 1024}, wide, {22, 4, 6}),
      same("3 causal, more queries", words("causal"), {1024, 512}, wide, {6, 4, 22}),
      same("4 causal", words("causal"), {384, 768}, wide, {12, 3, 3}),
      same("5 window", words("sliding:left=256,right=256"), thousand, wide, {22, 12, 30}),
      same("5 window to the left", words("sliding:left=256,right=0"), thousand, wide, {7, 14, 43}),
      same("6 block diagonal", words("document:lengths=128+128+128+128+128+128+128+128"), thousand,
           wide, {8, 0, 56}),
      {"6 block diagonal, ragged",
       slices({0, 128, 128, 256, 256, 333}, {0, 128, 128, 256, 256, 384}),
       {333, 444},
       wide,
       {2, 1, 9},
       {3, 0, 9}},
      same("7 mini causal", mini_causal(1024, 128), thousand, wide, {0, 64, 0}),
      same("8 prefix", words("prefix:length=512"), thousand, wide, {38, 4, 22}),
      same("9 dilated", diagonals(1024, 0, 254), thousand, wide, {0, 21, 43}),
      {"10 causal, a token more", words("causal"), {129, 129}, wide, {0, 3, 1}, {2, 1, 1}},
      {"10 causal, ragged", words("causal"), {100, 200}, {64, 128}, {0, 4, 0}, {1, 3, 0}},
      {"11 all, in coarse blocks", words("full"), {384, 1024}, {256, 512}, {2, 2, 0}, {4, 0, 0}},
      same("13 block causal", block_causal_2k(false), {2048, 2048}, wide, {148, 0, 108}),
      same("14 block causal, sequences", block_causal_2k(true), {2048, 2048}, wide, {84, 0, 172}),
      same("15 sparse", sparse_2k(), {2048, 2048}, wide, {90, 16, 150}),
      same("16 alternating", alternating(50, 50), {2500, 2500}, {50, 50}, {1250, 1250, 0}),
      same("18 window", words("sliding:left=3,right=0"), {12, 12}, {2, 2}, {5, 10, 21}),
      same("18 prefix", words("prefix:length=4"), {12, 12}, {2, 2}, {18, 4, 14}),
      same("18 dilated", diagonals(24, -4, 4), {24, 24}, {3, 3}, {0, 34, 30}),
      same("18 global", words("sliding:left=3,right=3 | global:tokens=0+8,symmetric=true"),
           {16, 16}, {2, 2}, {22, 26, 16}),
      same("19 shared prefix", shared_prefix({3, 2, 2, 2, 3, 2, 2, 2}, {0, 0, 0, 0, 4, 4, 4, 4}),
           {18, 18}, {3, 3}, {4, 8, 24}),
      same("20 block diffusion", block_diffusion(8, 4), {16, 16}, {2, 2}, {24, 0, 40}),
      same("20 block diffusion, apart", block_diffusion(12, 4), {24, 24}, {3, 3}, {13, 18, 33}),
      same("21 documents", words("document:lengths=2538+1742+3912,causal=true"), {8192, 8192}, wide,
           {684, 140, 3272}),
      same("21 window", words("sliding:left=1023,right=0"), {8192, 8192}, wide, {420, 120, 3556}),
      same("21 prefix", words("prefix:length=1024"), {8192, 8192}, wide, {2052, 56, 1988}),
  };
}

TEST_CASE("published masks have the tiles that are published of them") {
  for (const Case& each : cases()) {
    CAPTURE(each.what);
    const Problem problem = make_problem(each.mask, each.lengths, each.shape, 1, 1);
    const TileCounts in_bounds = problem.common_grid().counts();
    CAPTURE(in_bounds.full, in_bounds.partial, in_bounds.empty);
    CHECK(in_bounds == each.in_bounds);
    const TileCounts flex = by_rule(problem, Ragged::flex).distinct().front().counts();
    CAPTURE(flex.full, flex.partial, flex.empty);
    CHECK(flex == each.flex);
  }
}

TEST_CASE("a shared prefix has the tiles of its picture") {
  const Problem problem = make_problem(
      shared_prefix({3, 2, 2, 2, 3, 2, 2, 2}, {0, 0, 0, 0, 4, 4, 4, 4}), {18, 18}, {3, 3}, 1, 1);
  CHECK(tiles_mask(problem.common_grid()).strings("rows") ==
        std::vector<std::string>{"pff...", ".pp...", "..p...", "...pff", "....pp", ".....p"});
}

TEST_CASE("2500 slices of which none overlaps are told so") {
  const Mask mask = alternating(50, 50);
  Bundle bundle;
  for (const auto& [name, key] : {std::pair{"q_ranges", "q"}, std::pair{"k_ranges", "kv"}}) {
    NamedTensor named{.name = name};
    named.tensor = {.dtype = Dtype::int32, .shape = {2500, 2}, .elements = mask.integers(key)};
    bundle.tensors.push_back(named);
  }
  NamedTensor types{.name = "attn_type_map"};
  types.tensor = {.dtype = Dtype::int32, .shape = {2500}, .elements = mask.integers("types")};
  bundle.tensors.push_back(types);
  const ImportedMask imported = read_mask_file(write_npz(bundle), "x.npz", {});
  CHECK(imported.mask == mask);
  CHECK(imported.mask.origin.understood[2] == "no pair of tokens is in two slices");
}

TEST_CASE("23: a mask that was cut counts what is left, and is refused where it counts the rest") {
  const Problem bands =
      make_problem(slices({0, 128, 0, 128}, {0, 128, 384, 512}), {128, 640}, {128, 128}, 1, 1);
  Bundle bundle = flex_bundle(bands.grids, bands);
  const auto tensor = [&](const char* name) -> Tensor& {
    return std::ranges::find(bundle.tensors, name, &NamedTensor::name)->tensor;
  };
  CHECK(tensor("full_kv_num_blocks").elements == Elements{2});
  CHECK(tensor("full_kv_indices").elements == Elements{0, 3, 1, 2, 4});
  CHECK(rows_of(read(bundle)) == std::vector<std::string>{"f", ".", ".", "f", "."});
  // Its first three columns, without the lists by KV tile.
  std::erase_if(bundle.tensors, [](const NamedTensor& each) {
    return each.name.starts_with("q_") || each.name.starts_with("full_q_");
  });
  tensor("seq_lengths").elements = {128, 384};
  for (const char* name : {"kv_indices", "full_kv_indices"}) {
    tensor(name).shape.back() = 3;
    tensor(name).elements.resize(3);
  }
  CHECK(refusal_of(bundle) == "x.npz: full_kv_indices[0,0,0,1] = 3 is no KV tile; there are 3");
  tensor("full_kv_num_blocks").elements = {1};
  CHECK(rows_of(read(bundle)) == std::vector<std::string>{"f", ".", "."});
  // Lists of one entry each are of as many KV tiles as they name.
  CHECK(rows_of(read(bundle_of({{"kv_num_blocks", ints({1, 1, 3}, {1, 1, 1})},
                                {"kv_indices", ints({1, 1, 3, 1}, {0, 1, 2})}}))) ==
        std::vector<std::string>{"p..", ".p.", "..p"});
  // FlashInfer's own example.
  CHECK(rows_of(read(bundle_of(
            {{"indptr", ints({4}, {0, 1, 3, 5})}, {"indices", ints({5}, {2, 0, 2, 1, 2})}}))) ==
        std::vector<std::string>{".f.", "..f", "fff"});
}

/// Tokens from one to the one before another.
struct Span {
  std::int64_t begin;
  std::int64_t end;
  [[nodiscard]] std::int64_t size() const { return end - begin; }
};

/// The slices of a window whose last query sees up to the last key, moved to where its tokens are.
Mask moved_slices(const Bundle& window, std::int64_t first_q, std::int64_t first_kv) {
  Elements q = window.at("q_ranges").elements;
  Elements kv = window.at("k_ranges").elements;
  for (std::int64_t& token : q)
    token += first_q;
  for (std::int64_t& token : kv)
    token += first_kv;
  return slices(std::move(q), std::move(kv), window.at("attn_type_map").elements);
}

/// Pairs of tokens of all slices, each counted once a slice: causal ends fall back by a key for
/// each query before the last, and inverse ones go ahead by one for each after the first.
std::int64_t area_of(const Mask& mask) {
  const Elements& q = mask.integers("q");
  const Elements& kv = mask.integers("kv");
  const Elements& types = mask.integers("types");
  std::int64_t area = 0;
  for (std::size_t slice = 0; slice < types.size(); ++slice) {
    for (std::int64_t row = q[2 * slice]; row < q[2 * slice + 1]; ++row) {
      const std::int64_t behind = types[slice] % 2 == 1 ? q[2 * slice + 1] - 1 - row : 0;
      const std::int64_t ahead = types[slice] >= 2 ? row - q[2 * slice] : 0;
      area += std::max<std::int64_t>(kv[2 * slice + 1] - behind - (kv[2 * slice] + ahead), 0);
    }
  }
  return area;
}

TEST_CASE("17: windows of a part of the tokens are the slices that they are decomposed into") {
  const std::vector<std::pair<Span, Span>> parts = {{{5, 25}, {5, 25}},
                                                    {{5, 15}, {7, 30}},
                                                    {{5, 30}, {10, 20}},
                                                    {{10, 20}, {5, 45}},
                                                    {{3, 25}, {20, 24}}};
  constexpr std::int64_t kTokens = 50;
  std::int64_t windows = 0;
  std::int64_t wrong = 0;
  for (const auto& [q, kv] : parts) {
    // Aligned at the last tokens: the queries before the first key that could be theirs see
    // nothing.
    const std::int64_t queries = std::min(q.size(), kv.size());
    for (std::int64_t left = -1; left < kv.size(); ++left) {
      for (std::int64_t right = -1; right < kv.size(); ++right, ++windows) {
        const Mask window = make_mask("sliding", {{"left", left}, {"right", right}});
        const Mask whole =
            moved_slices(magi_bundle(make_problem(window, {queries, kv.size()}, {}, 1, 1)),
                         q.end - queries, kv.begin);
        const Problem problem = make_problem(whole, {kTokens, kTokens}, {}, 1, 1);
        const TokenMask tokens(problem);
        std::int64_t seen = 0;
        for (std::int64_t query = 0; query < kTokens; ++query) {
          for (std::int64_t key = 0; key < kTokens; ++key) {
            const std::int64_t distance = (key - kv.end) - (query - q.end);
            const bool within = query >= q.end - queries && query < q.end && key >= kv.begin &&
                                key < kv.end && (left < 0 || -distance <= left) &&
                                (right < 0 || distance <= right);
            seen += within ? 1 : 0;
            wrong += tokens.sees(query, key) == within ? 0 : 1;
          }
        }
        wrong += area_of(whole) == seen ? 0 : 1;  // no pair is in two of them
      }
    }
  }
  CHECK(windows == 21 * 21 + 24 * 24 + 11 * 11 + 41 * 41 + 5 * 5);
  CHECK(wrong == 0);
}

}  // namespace
}  // namespace stagger::formats
