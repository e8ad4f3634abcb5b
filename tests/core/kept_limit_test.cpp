// Sizes and times at their limits, and one beyond, kept in tests/golden/core-limits.txt.

#include "core/error.hpp"
#include "core/limits.hpp"
#include "core/machine.hpp"
#include "core/problem.hpp"
#include "core/span.hpp"
#include "core/tiling.hpp"
#include "core/timing.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/golden.hpp"
#include "tests/support/refusal.hpp"

#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace stagger {
namespace {

TEST_CASE("limits are met to the last one: free spans, no passes, chains of a broken table") {
  // Two KV heads of three KV tiles: six chains, two for each of three SMs.
  const auto why = [](std::int64_t sms) {
    return span_rule(make_problem(make_mask("full"), {4, 3}, {}, 4, sms, {.heads_kv = 2})).why;
  };
  CHECK(why(3).ends_with(", and at least two chains an SM: free"));
  CHECK(why(4).ends_with(", but fewer than two chains an SM: packing may cost something"));
  KernelTimes times;
  times.passes_per_mi = MeasuredNs{};
  CHECK(times.passes_ns(std::int64_t{1} << 40) == 0);
  // A chain that is left and begun again has its launch again.
  Table table;
  table.problem = make_problem(make_mask("full"), {2, 2}, {}, 1, 1);
  const auto add = [&](std::int32_t kv, std::int32_t q) {
    table.slots.push_back({{Head{0}, KvTile{kv}, QTile{q}}, kv});
  };
  add(0, 0);
  add(1, 0);
  add(0, 1);
  add(1, 1);
  table.end_lane();
  constexpr Ticks kMost = Ticks{1} << 60;
  CHECK_NOTHROW(check_timing({.compute = 1, .reduce = 0, .launch = kMost / 4 - 1}, table));
  CHECK_THROWS_AS(check_timing({.compute = 1, .reduce = 0, .launch = kMost / 4}, table), Error);
  CHECK_NOTHROW(check_timing({.compute = 1, .reduce = 0, .launch = kMost / 4}, table.problem));
  std::swap(table.slots[1], table.slots[2]);  // two chains of two slots each
  CHECK_NOTHROW(check_timing({.compute = 1, .reduce = 0, .launch = kMost / 2 - 2}, table));
  CHECK_THROWS_AS(check_timing({.compute = 1, .reduce = 0, .launch = kMost / 2 - 1}, table), Error);
}

TEST_CASE("what a memory could move fits 2^56 bytes") {
  // Two tasks and one chain: 2 (q + 2 dq) + kv + 2 gradient, each bound alone and in a sum.
  const Problem problem = make_problem(make_mask("full"), {2, 1}, {}, 1, 1);
  REQUIRE(problem.tasks() == 2);
  REQUIRE(problem.chains() == 1);
  constexpr std::int64_t kMost = std::int64_t{1} << 56;
  const auto fits = [&](const TileBytes& tile, std::int64_t add_permille = 0) {
    Timing timing;
    timing.memory = Memory{.l2 = 1, .rate = 1, .tile = tile, .add_permille = add_permille};
    return test::said([&] {
             check_timing(timing, problem);
             return std::string("fits");
           }) == "fits";
  };
  CHECK(fits({.q = kMost / 2}));
  CHECK_FALSE(fits({.q = kMost / 2 + 1}));
  CHECK(fits({.dq = kMost / 4}));
  CHECK_FALSE(fits({.dq = kMost / 4 + 1}));
  // Additions take as many bytes once more for every thousand begun.
  CHECK(fits({.dq = kMost / 8}, 2'000));
  CHECK_FALSE(fits({.dq = kMost / 8 + 1}, 2'000));
  CHECK_FALSE(fits({.dq = kMost / 8}, 2'001));
  CHECK(fits({.gradient = kMost / 4}, 2'000));
  CHECK_FALSE(fits({.gradient = kMost / 4 + 1}, 2'000));
  CHECK(fits({.kv = kMost}));
  CHECK_FALSE(fits({.kv = kMost + 1}));
  CHECK(fits({.gradient = kMost / 2}));
  CHECK_FALSE(fits({.gradient = kMost / 2 + 1}));
  CHECK(fits({.q = 2, .dq = 3, .kv = kMost - 30, .gradient = 7}));
  CHECK_FALSE(fits({.q = 2, .dq = 3, .kv = kMost - 29, .gradient = 7}));
}

TEST_CASE("masks by head have so many tiles together") {
  const auto said = [](std::int64_t q_tiles, std::int64_t kv_tiles) {
    return test::said([&] {
      const Mask mask = make_mask("heads", {{"of", std::vector<Mask>(8, make_mask("full"))}});
      const HeadGrids grids = tile_heads(mask, {.q = q_tiles, .kv = kv_tiles}, {}, 8);
      return std::to_string(grids.distinct().front().live_tiles());
    });
  };
  CHECK(said(9, 8) == "72");
  CHECK(said(4'097, 8'192) ==
        "refused 3: 8 masks of 8192 x 4097 tiles; at most 268435456 tiles are supported");
}

TEST_CASE("sizes and times at their limits, and one beyond, are as kept") {
  std::ostringstream text;
  const auto add = [&](const char* what, const std::string& mask, Lengths lengths, TileShape shape,
                       std::int64_t heads, std::int64_t sms, Grouping grouping = {}) {
    text << what << ": " << test::said([&] {
      return describe(make_problem(parse_mask(mask), lengths, shape, heads, sms, grouping));
    }) << "\n";
  };
  constexpr std::int64_t kMi = std::int64_t{1} << 20;
  add("longest", "full", {1, kMaxTokens}, {1, kMaxTokens}, 1, 1);
  add("too long", "full", {1, kMaxTokens + 1}, {1, kMaxTokens}, 1, 1);
  add("too many queries", "full", {kMaxTokens + 1, 1}, {kMaxTokens, 1}, 1, 1);
  add("too long a tile", "full", {1, 1}, {kMaxTokens + 1, 1}, 1, 1);
  add("too long a KV tile", "full", {1, 1}, {1, kMaxTokens + 1}, 1, 1);
  add("no tile", "full", {1, 1}, {0, 1}, 1, 1);
  add("no KV tile", "full", {1, 1}, {1, 0}, 1, 1);
  add("below nothing", "full", {-1, 1}, {}, 1, 1);
  add("nothing", "full", {0, 0}, {}, 1, 0);
  add("most tiles", "full", {1, kMi}, {}, 1, 1);
  add("too many tiles", "full", {1, kMi + 1}, {}, 1, 1);
  add("too many Q tiles", "full", {kMi + 1, 1}, {}, 1, 1);
  add("too large a grid", "full", {8'193, 8'192}, {}, 1, 1);
  add("most tasks", "full", {8'192, 8'191}, {}, 1, 1);
  add("most heads", "sliding:left=0,right=0", {1, 1}, {}, kMaxHeads, 1);
  add("too many heads", "full", {1, 1}, {}, kMaxHeads + 1, 1);
  add("most SMs", "full", {1, 1}, {}, 1, kMaxSms);
  add("too many SMs", "full", {1, 1}, {}, 1, kMaxSms + 1);
  add("no heads", "full", {1, 1}, {}, 0, 1);
  const auto one_live = [](std::size_t q_tiles) {
    return "tiles:rows=f" + std::string(q_tiles - 1, '.') + "+" + std::string(q_tiles, '.');
  };
  add("most locks", one_live(14), {14, 2}, {}, kMaxHeads, 1);
  add("too many locks", one_live(15), {15, 2}, {}, kMaxHeads, 1);
  add("a sparse grid", "sliding:left=0,right=0", {4'096, 4'096}, {}, 1'024, 1);
  add("too sparse a grid", "sliding:left=0,right=0", {4'096, 4'096}, {}, 1'025, 1);
  add("groups", "causal", {8, 8}, {}, 6, 2, {.heads_kv = 2});
  add("a group", "causal", {8, 8}, {}, 6, 2, {.heads_kv = 1, .span = 3});
  add("no group", "causal", {8, 8}, {}, 6, 2, {.heads_kv = 4});
  add("more KV heads", "causal", {8, 8}, {}, 6, 2, {.heads_kv = 7});
  add("no span", "causal", {8, 8}, {}, 6, 2, {.heads_kv = 1, .span = 4});
  add("a span of less than nothing", "causal", {8, 8}, {}, 6, 2, {.heads_kv = 1, .span = -1});
  add("not combined", "causal", {8, 8}, {}, 6, 2,
      {.heads_kv = 1, .span = 2, .combine = Combine::none});
  const Problem ordered = make_problem(make_mask("full"), {2, 2}, {}, 4, 3,
                                       {.heads_kv = 1, .span = 1, .combine = Combine::ordered});
  constexpr Ticks kMost = Ticks{1} << 60;
  const auto check = [&](const char* what, const Timing& timing) {
    text << what << ": " << test::said([&] {
      check_timing(timing, ordered);
      return std::string("taken");
    }) << "\n";
  };
  // 16 tasks and 8 chains on each of 3 SMs.
  for (const Ticks more : {0, 1}) {
    check("compute", {.compute = kMost / 48 + more, .reduce = 0});
    check("reduce", {.compute = 0, .reduce = kMost / 48 + more});
    check("latency", {.compute = 1, .reduce = 0, .latency = (kMost / 3 - 16) / 24 + more});
    check("launch", {.compute = 1, .reduce = 0, .launch = (kMost / 3 - 16) / 8 + more});
    check("epilogue", {.compute = 1, .reduce = 0, .epilogue = (kMost / 3 - 16) / 8 + more});
    check("reduce-kv", {.compute = 1, .reduce = 0, .reduce_kv = (kMost / 3 - 16) / 8 + more});
  }
  check("negative reduce-kv", {.reduce_kv = -1});
  check("negative launch", {.launch = -1});
  check("negative residency", {.residency = -1});
  check("nothing", {.compute = 0, .reduce = 0});
  CHECK(test::golden_difference("core-limits.txt", text.str()) == "");
}

}  // namespace
}  // namespace stagger
