// Every word of files, descriptions and refusals, kept in tests/golden/core-*.txt. What the words
// must say is tested elsewhere; here no letter of them changes unseen.

#include "core/block_rates.hpp"
#include "core/error.hpp"
#include "core/files.hpp"
#include "core/json_place.hpp"
#include "core/json_value.hpp"
#include "core/limits.hpp"
#include "core/machine.hpp"
#include "core/order_digest.hpp"
#include "core/span.hpp"
#include "core/table_digest.hpp"
#include "core/timing.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/golden.hpp"
#include "tests/support/random.hpp"

#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace stagger {
namespace {

/// What `work` says, or what it is refused with.
template <class Work>
std::string said(Work work) {
  try {
    return work();
  } catch (const Error& error) {
    return "refused " + std::to_string(static_cast<int>(error.kind())) + ": " + error.what();
  }
}

TEST_CASE("masks from words, and what is said of wrong ones, are as kept") {
  std::ostringstream text;
  for (const char* words :
       {"full",
        "causal",
        "sliding:left=2,right=1",
        "sliding:left=-1",
        "sliding:left=-2",
        "sliding:right=-2",
        "sliding:left=0,right=0",
        "sliding:left=67108864,right=67108865",
        "sliding:left=1,left=2",
        "sliding:left",
        "sliding:left=x",
        "sliding:left=",
        "sliding:=1",
        "sliding:lft=1",
        "slding",
        "sliding:",
        "sliding:,",
        "prefix",
        "prefix:length=3",
        "prefix:length=0",
        "prefix:length=-1",
        "document:lengths=2+3+1",
        "document:lengths=2+3+1,causal=true",
        "document:lengths=2+3+1,causal=1",
        "document:lengths=6,causal=0",
        "document:lengths=6,causal=maybe",
        "document:lengths=2+3",
        "document:lengths=7",
        "document:lengths=-1+7",
        "document:lengths=67108865",
        "document:lengths=67108864+67108864+67108864",
        "document:lengths=6+0",
        "document",
        "block-causal:q_blocks=0+0+1+1+2+3,kv_blocks=0+1+1+2+2+4",
        "block-causal:q_blocks=0+0+1+1+2,kv_blocks=0+1+1+2+2+4",
        "block-causal:q_blocks=1+0+1+1+2+3,kv_blocks=0+1+1+2+2+4",
        "block-causal:q_blocks=0+0+1+1+2+3,kv_blocks=0+1+1+2+2+1",
        "tiles:rows=ffffff+fpfpfp+p.....+......+ppffpp+.p.p.p",
        "tiles:rows=fff",
        "tiles:rows=ffffff+fffff+ffffff+ffffff+ffffff+ffffff",
        "tiles:rows=ffffxf+......+f.....",
        "csr:mask_block_cnt=1+1,mask_block_offset=0+1,mask_block_idx=0+1,full_block_cnt=1+0,"
        "full_block_offset=0+1,full_block_idx=1"}) {
    text << words << ": " << said([&] {
      const Mask mask = parse_mask(words);
      const Problem problem = make_problem(mask, {6, 6}, {}, 1, 2);
      return mask_words(mask) + "; " + describe(problem) + " " + write_mask_json(problem.grid);
    }) << "\n";
  }
  const std::string count = "csr:mask_block_cnt=";
  for (const char* rest :
       {"1+1,mask_block_offset=0+1+2,mask_block_idx=0+1,full_block_cnt=0+0,full_block_offset=0+0,"
        "full_block_idx=",
        "1+1,mask_block_offset=0,mask_block_idx=0+1,full_block_cnt=0+0,full_block_offset=0+0,"
        "full_block_idx=",
        "1,mask_block_offset=0,mask_block_idx=0,full_block_cnt=1+1,full_block_offset=0+1,"
        "full_block_idx=0+1",
        "1+1,mask_block_offset=0+1,mask_block_idx=0+2,full_block_cnt=0+0,full_block_offset=0+0,"
        "full_block_idx=",
        "1+1,mask_block_offset=0+2,mask_block_idx=0+1,full_block_cnt=0+0,full_block_offset=0+0,"
        "full_block_idx=",
        "1+2,mask_block_offset=0+1,mask_block_idx=0+1,full_block_cnt=0+0,full_block_offset=0+0,"
        "full_block_idx=",
        "1+1,mask_block_offset=0+1,mask_block_idx=0+-1,full_block_cnt=0+0,full_block_offset=0+0,"
        "full_block_idx=",
        "1+1,mask_block_offset=-1+1,mask_block_idx=0+1,full_block_cnt=0+0,full_block_offset=0+0,"
        "full_block_idx=",
        "1+-1,mask_block_offset=0+1,mask_block_idx=0+1,full_block_cnt=0+0,full_block_offset=0+0,"
        "full_block_idx=",
        "1+1,mask_block_offset=0+1,mask_block_idx=0+1,full_block_cnt=1+0,full_block_offset=0+0,"
        "full_block_idx=0",
        "0+2,mask_block_offset=2+0,mask_block_idx=0+1,full_block_cnt=0+0,full_block_offset=0+0,"
        "full_block_idx="}) {
    text << rest << ": " << said([&] {
      const Problem problem = make_problem(parse_mask(count + rest), {2, 2}, {}, 1, 2);
      return describe(problem) + " " + write_mask_json(problem.grid);
    }) << "\n";
  }
  for (const MaskFamily& family : mask_families()) {  // each without one of its keys
    for (const MaskKey& missing : family.keys) {
      std::map<std::string, MaskValue, std::less<>> values = parse_mask(family.example).values;
      values.erase(missing.name);
      text << family.name << " without " << missing.name << ": "
           << said([&] { return mask_words(make_mask(family.name, std::move(values))); }) << "\n";
    }
  }
  CHECK(test::golden_difference("core-masks.txt", text.str()) == "");
}

Table drawn_table(test::Random& random) {
  Problem problem = test::random_problem(random, 4);
  if (random.chance(2)) problem = test::with_random_groups(random, std::move(problem), 4);
  Table table = test::random_live_table(random, problem,
                                        random.chance(2) ? Dispatch::static_ : Dispatch::in_order);
  if (problem.combine == Combine::ordered && random.chance(2))
    test::shuffle_dkv_ranks(random, table);
  return table;
}

TEST_CASE("files of tables, their digests and the span's rule are as kept") {
  test::Random random(121);
  std::ostringstream text;
  for (int round = 0; round < 40; ++round) {
    const Table table = drawn_table(random);
    const std::string json = write_table_json(table);
    const std::string csv = write_table_csv(table);
    text << round << ": " << describe(table.problem) << " " << test::text_digest(json) << " "
         << test::text_digest(csv) << " " << table_digest(table) << " "
         << order_digest(table, 1, 64) << "\n  " << span_rule(table.problem).span << " "
         << span_rule(table.problem).why << "\n";
    if (round < 12) text << json << csv;
  }
  CHECK(test::golden_difference("core-tables.txt", text.str()) == "");
}

/// The text with one piece left out or another one in its place, at every place.
template <class Read>
void break_everywhere(std::ostringstream& text, const std::string& whole, const char* pieces,
                      Read read) {
  std::string last;
  for (std::size_t begin = 0; begin < whole.size();) {
    const std::size_t end = std::min(whole.find_first_of(pieces, begin + 1), whole.size());
    for (const char* other : {"", ":", "-1", "99"}) {
      const std::string changed = whole.substr(0, begin) + other + whole.substr(end);
      const std::string line = said([&] {
        read(changed);
        return std::string("is read");
      });
      if (line != last) text << "  at " << begin << " '" << other << "': " << line << "\n";
      last = line;
    }
    begin = end;
  }
}

TEST_CASE("what is said of CSV and JSON with a piece missing or wrong is as kept") {
  test::Random random(122);
  std::ostringstream text;
  for (int round = 0; round < 6; ++round) {
    const Table table = drawn_table(random);
    const std::string csv = write_table_csv(table);
    std::ostringstream broken;
    break_everywhere(broken, csv, ",=:\n", [](const std::string& changed) {
      static_cast<void>(read_table_csv(changed, "csv", nullptr));
    });
    break_everywhere(broken, write_table_json(table), ",:[{\n", [](const std::string& changed) {
      static_cast<void>(read_table_json(changed, "json"));
    });
    // The first in full: the others say the same of other places.
    text << round << " " << csv << test::text_digest(broken.str()) << "\n";
    if (round == 0) text << broken.str();
  }
  for (const char* csv :
       {"", "\n", ",,\n", "0:0:0:0\n", " \"0:0:0:0\" ,\r\n\n 0:1:0:1,,", "stagger.table/1",
        "stagger.table/1,heads=1,kv_tiles=2,q_tiles=1,sms=2,mask=full,dispatch=in-order,name=a b\n",
        "stagger.table/1,heads=1,heads=1", "stagger.table/1,what=1", "stagger.table/3,heads=1"}) {
    const Problem problem = make_problem(make_mask("full"), {1, 2}, {}, 1, 2);
    for (const Problem* given : {static_cast<const Problem*>(nullptr), &problem}) {
      text << csv << (given == nullptr ? " alone: " : " given: ") << said([&] {
        const Table table = read_table_csv(csv, "csv", given);
        return table.name + " " + std::to_string(table.lanes()) + " lanes\n" +
               write_table_csv(table);
      }) << "\n";
    }
  }
  CHECK(test::golden_difference("core-broken.txt", text.str()) == "");
}

TEST_CASE("ranks of parts are written wherever they are, and refused where there is no part") {
  // The second KV tile is nobody's: its ranks are wrong, and are kept for verify to say so.
  Table table;
  table.problem = make_problem(parse_mask("tiles:rows=ff+.."), {2, 2}, {}, 4, 2,
                               {.heads_kv = 2, .span = 1, .combine = Combine::ordered});
  for (const std::int32_t rank : {-1, 0, 1}) {
    table.dkv_ranks = {0, rank, 1, -1, 1, rank, 0, rank};
    CAPTURE(rank);
    CHECK(read_table_json(write_table_json(table), "json").dkv_ranks == table.dkv_ranks);
    CHECK(read_table_csv(write_table_csv(table), "csv", nullptr).dkv_ranks == table.dkv_ranks);
    table.dkv_ranks[0] = -1;  // a live chain that has none is said to
    CHECK(write_table_json(table).find("[[0,0,0,-1],") != std::string::npos);
    CHECK(write_table_csv(table).find("dkv_ranks=0:0:0:-1+") != std::string::npos);
  }
  const auto read = [&](const std::string& part) {
    const std::string row =
        "stagger.table/2,heads=4,kv_tiles=2,q_tiles=2,sms=2,heads_kv=2,span=1,"
        "combine=ordered,mask=tiles:rows=ff+..,dkv_ranks=";
    return said([&] {
      const Table made = read_table_csv(row + part + "\n", "csv", nullptr);
      std::string ranks;
      for (const std::int32_t rank : made.dkv_ranks)
        ranks += std::to_string(rank) + " ";
      return ranks;
    });
  };
  CHECK(read("1:1:1:7") == "-1 -1 -1 -1 -1 -1 -1 7 ");
  CHECK(read("0:1:1:7+1:0:0:-3") == "-1 -1 -1 7 -3 -1 -1 -1 ");
  for (const char* part : {"-1:1:1:7", "2:1:1:7", "1:-1:1:7", "1:2:1:7", "1:1:-1:7", "1:1:2:7"})
    CHECK(read(part) ==
          std::string("refused 1: csv: row 1: '") + part + "' is a part that does not exist");
  CHECK(read("1:1:1") == "refused 1: csv: row 1: '1:1:1' is not kv_head:kv:part:rank");
}

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

TEST_CASE("intervals of a timeline are within its SMs, heads and time") {
  const auto read = [](const std::string& interval) {
    return said([&] {
      const Timeline line = read_timeline_json(
          R"({"schema": "stagger.timeline/1", "clock": "ticks", "sms": 3, "heads": 2,)"
          R"( "makespan": 5, "intervals": [{)" +
              interval + "}]}",
          "line");
      return write_timeline_json(line);
    });
  };
  std::ostringstream text;
  for (const char* place :
       {R"("sm": 2, "head": 1, "kv": 1048576, "q": 1048576)",
        R"("sm": 3, "head": 1, "kv": 0, "q": 0)", R"("sm": 4, "head": 1, "kv": 0, "q": 0)",
        R"("sm": 0, "head": 2, "kv": 0, "q": 0)", R"("sm": 0, "head": 3, "kv": 0, "q": 0)",
        R"("sm": 0, "head": 0, "kv": 1048577, "q": 0)",
        R"("sm": 0, "head": 0, "kv": 0, "q": 1048577)", R"("sm": -1, "head": 0, "kv": 0, "q": 0)"})
    text << place << ": " << read(std::string(place) + R"(, "phase": "wait", "start": 1, "end": 7)")
         << "\n";
  for (const char* rest :
       {R"("phase": "reduce", "start": 4, "end": 4)", R"("phase": "reduce", "start": 4, "end": 3)",
        R"("phase": "reduce", "start": -1, "end": 3)",
        R"("phase": "nothing", "start": 1, "end": 3)",
        R"("phase": "launch", "start": 0, "end": 4611686018427387904)",
        R"("phase": "launch", "start": 0, "end": 4611686018427387905)",
        R"("phase": "reduce-kv", "start": 1, "end": 3, "rank": 2147483647)",
        R"("phase": "epilogue", "start": 1, "end": 3, "rank": 2147483648)",
        R"("phase": "compute", "start": 1, "end": 3, "critical": true)"})
    text << rest << ": " << read(std::string(R"("sm": 1, "head": 1, "kv": 2, "q": 3, )") + rest)
         << "\n";
  CHECK(test::golden_difference("core-intervals.txt", text.str()) == "");
}

TEST_CASE("sizes and times at their limits, and one beyond, are as kept") {
  std::ostringstream text;
  const auto add = [&](const char* what, const std::string& mask, Lengths lengths, TileShape shape,
                       std::int64_t heads, std::int64_t sms, Grouping grouping = {}) {
    text << what << ": " << said([&] {
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
    text << what << ": " << said([&] {
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
  text << said([&] {
    expect_no_groups(ordered, "this");
    return std::string("taken");
  }) << "\n";
  CHECK(test::golden_difference("core-limits.txt", text.str()) == "");
}

TEST_CASE("every value of a JSON text is where it is kept to be") {
  const std::string json =
      "{ \"a\" : [ 1 , -2.5e3 ,\n\ttrue, { \"b,]}\" : [ ], \"c\\\"\\\\\" : { } } ],\r\n"
      "\"\": null, \"d\": \"x\\\\\",\"e\":[[[7]],\n[8,[9,{\"f\":0}]]] }\n";
  const std::vector<std::string> pointers = {
      "",       "/a",        "/a/0",           "/a/1",     "/a/2",
      "/a/3",   "/a/3/b,]}", "/a/4",           "/",        "/d",
      "/e",     "/e/0",      "/e/0/0",         "/e/0/0/0", "/e/1",
      "/e/1/0", "/e/1/1",    "/e/1/1/0",       "/e/1/1/1", "/e/1/1/1/f",
      "/e/1/2", "/e/0/0/1",  "/a/3/c\\\"\\\\", "/f"};
  std::ostringstream text;
  const std::vector<TextPlace> places = json_places(json, pointers);
  for (std::size_t index = 0; index < pointers.size(); ++index)
    text << pointers[index] << " " << places[index].line << ":" << places[index].column << "\n";
  // One at a time nothing deeper is kept.
  for (const std::string& pointer : pointers) {
    const TextPlace place = json_places(json, std::vector{pointer}).front();
    text << pointer << " alone " << place.line << ":" << place.column << "\n";
  }
  CHECK(test::golden_difference("core-places.txt", text.str()) == "");
}

TEST_CASE("rates of blocks are written as kept") {
  BlockRates rates{.gemm_tflops = 612.5,
                   .gemm_t0_ns = 4'000,
                   .copy = {{.size = 1, .rate = 3.5}},
                   .kappas = {{.permille = 4'400}}};
  std::ostringstream text;
  text << write_block_rates(rates) << "\n";
  rates.gemm_tflops = 700;
  rates.copy = {{.size = 1e6, .rate = 2}, {.size = 64e6, .rate = 3.07}, {.size = 2e15, .rate = 4}};
  rates.kappas = {{.ops = Ops::eager, .layers = "swiglu", .permille = 1'200},
                  {.ops = Ops::compiled, .layers = std::nullopt, .permille = 900}};
  rates.attention = {{.name = "ours",
                      .head_dim = 64,
                      .causal = true,
                      .seq = 4'096,
                      .forward_tflops = 300,
                      .backward_tflops = 210.25},
                     {.name = "theirs",
                      .head_dim = 128,
                      .causal = false,
                      .seq = 512,
                      .forward_tflops = 1e-6,
                      .backward_tflops = 1e9}};
  rates.source = "a \"page\"";
  rates.date = "2026";
  text << write_block_rates(rates) << "\n";
  for (const double size : {0.5, 1e6, 2e6, 8e6, 64e6, 1e9, 2e15, 1e16})
    text << size << ": " << rate_at(rates.copy, size) << "\n";
  CHECK(test::golden_difference("core-rates.txt", text.str()) == "");
  const JsonDocument least(
      R"({"gemm_tflops": 1, "gemm_t0_ns": 0, "copy_tbs": 2, "kappa_permille": 3})", "rates");
  const BlockRates read = read_block_rates(least.root());
  CHECK(read == BlockRates{.gemm_tflops = 1,
                           .gemm_t0_ns = 0,
                           .copy = {{.size = 1, .rate = 2}},
                           .kappas = {{.permille = 3}}});
}

}  // namespace
}  // namespace stagger
