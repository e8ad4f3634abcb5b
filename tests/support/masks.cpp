#include "tests/support/masks.hpp"

#include "core/checked.hpp"
#include "core/error.hpp"

#include <algorithm>
#include <optional>
#include <string>

namespace stagger::test {
namespace {

constexpr int kTries = 50;

/// Parts that add up to `total`, an empty one now and then.
std::vector<std::int64_t> random_parts(Random& random, std::int64_t total) {
  std::vector<std::int64_t> parts;
  while (total > 0) {
    parts.push_back(std::min(total, random.between(0, total)));
    total -= parts.back();
  }
  return parts;
}

/// A number for every token, never decreasing.
std::vector<std::int64_t> random_ids(Random& random, std::int64_t tokens) {
  std::vector<std::int64_t> ids;
  std::int64_t id = 0;
  for (std::int64_t token = 0; token < tokens; ++token) {
    ids.push_back(id);
    id += random.chance(3) ? random.between(1, 2) : 0;
  }
  return ids;
}

std::vector<std::string> random_tiles(Random& random, const Lengths& tiles) {
  std::vector<std::string> rows(at(tiles.kv));
  for (std::string& row : rows) {
    for (std::int64_t q = 0; q < tiles.q; ++q)
      row += ".fp"[random.between(0, 2)];
  }
  return rows;
}

/// Two masks or three, of one range of keys each and of several.
std::vector<Mask> random_masks(Random& random, const Lengths& lengths) {
  std::vector<Mask> masks = {
      make_mask("sliding", {{"left", random.between(-1, lengths.kv)},
                            {"right", random.between(-1, lengths.kv)}}),
      make_mask("global", {{"first", random.between(1, 3)}, {"symmetric", random.chance(2)}}),
      make_mask("prefix", {{"length", random.between(0, lengths.kv)}})};
  random.shuffle(masks);
  if (random.chance(2)) masks.pop_back();
  return masks;
}

/// A value of a key's type that may make sense: what it has to mean is its kind's business.
MaskValue random_value(Random& random, const MaskKey& key, const Lengths& lengths,
                       const TileShape& shape) {
  switch (key.fallback.index()) {
    case 0:
      return random.between(0, lengths.kv);
    case 1:
      return random.chance(2);
    case 2: {
      const bool of_queries = std::string_view(key.name).starts_with("q_");
      if (random.chance(2)) return random_parts(random, lengths.kv);
      return random_ids(random, of_queries ? lengths.q : lengths.kv);
    }
    case 4:
      return random_masks(random, lengths);
    default:
      return random_tiles(random, {divide_up(lengths.q, shape.q), divide_up(lengths.kv, shape.kv)});
  }
}

/// nullopt if the values do not fit.
std::optional<Problem> problem_of(const Mask& mask, const Lengths& lengths, const TileShape& shape,
                                  std::int64_t heads) {
  try {
    Problem problem = make_problem(mask, lengths, shape, heads, 0);
    if (problem.tasks() > 0) return problem;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::invalid_input) throw;
  }
  return std::nullopt;
}

std::optional<Problem> random_problem_of(const MaskFamily& family, Random& random,
                                         const Lengths& lengths, const TileShape& shape,
                                         std::int64_t heads) {
  for (int round = 0; round < kTries; ++round) {
    std::map<std::string, MaskValue, std::less<>> values;
    for (const MaskKey& key : family.keys)
      values.emplace(key.name, random_value(random, key, lengths, shape));
    const Mask mask = make_mask(family.name, std::move(values));
    // A kind with one length for queries and keys has no problem of two.
    for (const Lengths& fitting : {lengths, Lengths{lengths.kv, lengths.kv}}) {
      if (auto problem = problem_of(mask, fitting, shape, heads)) return problem;
    }
  }
  return std::nullopt;
}

/// The example at the size that it says, or else at the lengths.
std::optional<Problem> example_of(const MaskFamily& family, const Lengths& lengths,
                                  const TileShape& shape, std::int64_t heads) {
  const Mask mask = parse_mask(family.example);
  Lengths size = lengths;
  if (family.implied != nullptr) size = family.implied(mask);
  if (family.tiles != nullptr) size = {size.q * shape.q, size.kv * shape.kv};
  return problem_of(mask, size, shape, heads);
}

}  // namespace

std::vector<Problem> every_mask(const Lengths& lengths, const TileShape& shape, std::int64_t heads,
                                std::uint32_t seed) {
  Random random(seed);
  std::vector<Problem> problems;
  for (const MaskFamily& family : mask_families()) {
    if (family.by_head) continue;
    auto problem = random_problem_of(family, random, lengths, shape, heads);
    if (!problem) problem = example_of(family, lengths, shape, heads);
    if (!problem) throw std::logic_error(std::string(family.name) + ": no values fit the lengths");
    problems.push_back(std::move(*problem));
  }
  return problems;
}

std::int64_t kinds_of_masks() {
  return std::ranges::count_if(mask_families(),
                               [](const MaskFamily& family) { return !family.by_head; });
}

std::vector<Problem> small_masks_by_head() {
  struct Case {
    const char* mask;
    Lengths lengths;
    TileShape shape;
    std::int64_t heads;
    Grouping grouping;
  };
  const Case cases[] = {
      {"heads; causal; full", {.q = 16, .kv = 16}, {.q = 4, .kv = 4}, 2, {}},
      {"heads:heads=0+1+1; sliding:left=3,right=0; causal", {.q = 13, .kv = 17}, {3, 4}, 6, {}},
      {"heads; sliding:left=3,right=0 | global:first=2 & causal; tiles:rows=f.p+.pf",
       {.q = 11, .kv = 9},
       {.q = 4, .kv = 5},
       4,
       {}},
      // Tiles alike, and pairs in them not.
      {"heads; causal; sliding:left=9,right=0", {.q = 8, .kv = 8}, {.q = 4, .kv = 4}, 2, {}},
      {"heads:heads=0+0+1+1; causal; full", {.q = 12, .kv = 10}, {4, 4}, 8, {.heads_kv = 2}},
      {"heads:heads=0+0+1+1+2+2; tiles:rows=f.p+...+pp.; causal; tiles:rows=..f+.f.+...",
       {.q = 11, .kv = 15},
       {.q = 4, .kv = 5},
       6,
       {.heads_kv = 1, .span = 2, .combine = Combine::ordered}},
      {"heads:heads=0+1; tiles:rows=fp+..; tiles:rows=.p+f.",
       {.q = 5, .kv = 7},
       {.q = 3, .kv = 4},
       4,
       {.heads_kv = 2, .span = 1, .combine = Combine::partials}},
  };
  std::vector<Problem> problems;
  for (const Case& each : cases) {
    problems.push_back(make_problem(parse_mask(each.mask), each.lengths, each.shape, each.heads, 3,
                                    each.grouping));
  }
  return problems;
}

std::vector<Problem> every_small_mask() {
  struct Case {
    const char* mask;
    Lengths lengths;
    TileShape shape;
  };
  const Case corners[] = {
      {"full", {.q = 12, .kv = 16}, {.q = 4, .kv = 4}},
      {"full", {.q = 13, .kv = 10}, {.q = 5, .kv = 3}},
      {"causal", {.q = 16, .kv = 16}, {.q = 4, .kv = 4}},
      {"causal", {.q = 8, .kv = 8}, {}},
      {"causal", {.q = 15, .kv = 9}, {.q = 4, .kv = 2}},
      {"causal", {.q = 7, .kv = 18}, {.q = 2, .kv = 8}},
      {"sliding:left=5,right=2", {.q = 20, .kv = 20}, {.q = 4, .kv = 4}},
      {"sliding:left=3,right=0", {.q = 17, .kv = 12}, {.q = 3, .kv = 5}},
      {"prefix:length=5", {.q = 16, .kv = 16}, {.q = 4, .kv = 4}},
      {"document:lengths=5+1+9+3", {.q = 18, .kv = 18}, {.q = 4, .kv = 4}},
      {"document:lengths=7+0+6,causal=true", {.q = 13, .kv = 13}, {.q = 2, .kv = 4}},
      {"block-causal:q_blocks=0+1+1+3+4,kv_blocks=1+1+2+3", {.q = 5, .kv = 4}, {.q = 2, .kv = 2}},
      {"tiles:rows=f.p+pf.+...+pp.", {.q = 11, .kv = 15}, {.q = 4, .kv = 4}},
      {"tiles:rows=fpf+.fp", {.q = 3, .kv = 2}, {}},
      {"sliding:left=3,right=0 | global:first=2 & causal", {.q = 16, .kv = 16}, {.q = 4, .kv = 8}},
      {"sliding:left=1,right=1 | global:tokens=0+8,symmetric=true", {.q = 17, .kv = 17}, {3, 5}},
      {"tiles:rows=f.p+pf.+...+pp. & causal", {.q = 11, .kv = 15}, {.q = 4, .kv = 4}},
      {"slices:q=0+5+5+16,kv=0+5+0+16,types=1+3", {.q = 16, .kv = 16}, {.q = 3, .kv = 4}},
      {"flashmask:lts=16+16+6+7+8+9+10+11+12+13+14+15+16+16+16+16,lte=16+16+16+16+16+16+16+16+16+16"
       "+16+16+16+16+16+16,uts=0+0+0+0+0+0+2+2+2+2+2+2+2+2+2+2,ute=0+0+0+0+0+0+3+4+5+6+7+8+9+10+11"
       "+12",
       {.q = 16, .kv = 16},
       {.q = 4, .kv = 8}},
      {"varlen:q_lengths=5+0+3,kv_lengths=7+2+3,causal=true,align_q=4,align_kv=2",
       {.q = 11, .kv = 13},
       {.q = 4, .kv = 2}},
      {"csr:mask_block_cnt=1+1,mask_block_offset=0+1,mask_block_idx=0+1,full_block_cnt=1+0,"
       "full_block_offset=0+1,full_block_idx=1",
       {.q = 12, .kv = 10},
       {.q = 6, .kv = 5}},
  };
  std::vector<Problem> problems;
  for (const std::int64_t heads : {1, 2}) {
    for (const Case& each : corners)
      problems.push_back(make_problem(parse_mask(each.mask), each.lengths, each.shape, heads, 0));
    for (Problem& problem : every_mask({.q = 14, .kv = 17}, {.q = 3, .kv = 4}, heads, 1))
      problems.push_back(std::move(problem));
  }
  return problems;
}

Mask mask_of_pairs(const Lengths& lengths,
                   const std::function<bool(std::int64_t, std::int64_t)>& sees) {
  std::vector<std::int64_t> queries;
  std::vector<std::int64_t> keys;
  for (std::int64_t query = 0; query < lengths.q; ++query) {
    for (std::int64_t key = 0; key < lengths.kv; ++key) {
      if (!sees(query, key)) continue;
      if (key > 0 && sees(query, key - 1)) {
        ++keys.back();
      } else {
        queries.insert(queries.end(), {query, query + 1});
        keys.insert(keys.end(), {key, key + 1});
      }
    }
  }
  return make_mask("slices", {{"q", std::move(queries)}, {"kv", std::move(keys)}});
}

Mask random_ranges(Random& random, const Lengths& lengths, std::int64_t most) {
  std::vector<std::int64_t> queries;
  std::vector<std::int64_t> keys;
  for (std::int64_t query = 0; query < lengths.q; ++query) {
    for (std::int64_t ranges = random.between(0, most); ranges > 0; --ranges) {
      const std::int64_t begin = random.between(0, lengths.kv - 1);
      const std::int64_t longest = random.chance(3) ? lengths.kv - begin : 20;
      queries.insert(queries.end(), {query, query + 1});
      keys.insert(keys.end(), {begin, std::min(begin + random.between(1, longest), lengths.kv)});
    }
  }
  return make_mask("slices", {{"q", std::move(queries)}, {"kv", std::move(keys)}});
}

namespace {

/// Two intervals of queries that do not see a key, of every key.
Mask two_intervals(const Lengths& lengths) {
  std::map<std::string, MaskValue, std::less<>> values;
  const auto column = [&](const char* name, std::int64_t shift) {
    std::vector<std::int64_t> ends;
    for (std::int64_t key = 0; key < lengths.kv; ++key)
      ends.push_back(std::clamp<std::int64_t>(key + shift, 0, lengths.q));
    values.emplace(name, std::move(ends));
  };
  column("lts", 40);
  column("lte", 75);
  column("uts", -220);
  column("ute", -30);
  return make_mask("flashmask", std::move(values));
}

}  // namespace

std::vector<Problem> masks_in_bits(Random& random, const Lengths& lengths, const TileShape& shape,
                                   std::int64_t heads, const Grouping& grouping) {
  std::vector<Mask> masks = {
      parse_mask("sliding:left=30,right=0 | global:tokens=5+40+200+333,symmetric=true & causal"),
      parse_mask("sliding:left=30,right=30 | global:tokens=0+130+300,symmetric=true"),
      two_intervals(lengths), random_ranges(random, lengths, 5)};
  // A KV tile and a Q tile that have no part in it, full tiles, and pairs one by one.
  masks.push_back(mask_of_pairs(lengths, [&](std::int64_t query, std::int64_t key) {
    if (query / shape.q == 1 || key / shape.kv == 1) return false;
    if (query / shape.q % 2 == 0 && key / shape.kv % 2 == 0) return true;
    return query * 31 % 7 == key * 17 % 3;
  }));
  std::vector<Problem> problems;
  problems.reserve(masks.size());
  for (const Mask& mask : masks)
    problems.push_back(make_problem(mask, lengths, shape, heads, 0, grouping));
  return problems;
}

}  // namespace stagger::test
