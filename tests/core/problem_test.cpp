#include "core/problem.hpp"

#include "core/error.hpp"
#include "core/span.hpp"
#include "core/table.hpp"
#include "core/timing.hpp"
#include "tests/support/catch.hpp"

namespace stagger {
namespace {

TEST_CASE("there is an SM for every KV tile unless the caller says otherwise") {
  CHECK(make_problem(make_mask("causal"), {8, 8}, {}, 4, 0).sms == 8);
  CHECK(make_problem(make_mask("causal"), {8, 8}, {}, 4, 3).sms == 3);
  CHECK(make_problem(make_mask("causal"), {8, 8}, {}, 4, 0).tasks() == 144);
}

TEST_CASE("sizes that cannot be are refused before memory is asked for") {
  const auto make = [](std::int64_t tiles, std::int64_t heads, std::int64_t sms) {
    return make_problem(make_mask("full"), {tiles, tiles}, {}, heads, sms);
  };
  CHECK_THROWS_AS(make(4, 0, 1), Error);
  CHECK_THROWS_AS(make(4, 1, -1), Error);
  CHECK_THROWS_AS(make(4, std::int64_t{1} << 40, 1), Error);
  CHECK_THROWS_AS(make(4, 1, std::int64_t{1} << 40), Error);
  CHECK_THROWS_AS(make(1024, 1000, 1), Error);  // a thousand million tasks
  CHECK_THROWS_AS(
      make_problem(make_mask("sliding", {{"left", std::int64_t{0}}, {"right", std::int64_t{0}}}),
                   {8000, 8000}, {}, 8000, 1),
      Error);  // few tasks, but a huge grid
  // As many tasks and chains as a table can have, and one head more.
  constexpr std::int64_t kTasks = std::int64_t{1} << 26;
  CHECK(make(3, kTasks / 12, 2).tasks() + 3 * (kTasks / 12) <= kTasks);
  CHECK_THROWS_AS(make(3, kTasks / 12 + 1, 2), Error);
  const auto without_chain = [](std::int64_t heads) {  // its empty KV tile has none
    return make_problem(make_mask("tiles", {{"rows", std::vector<std::string>{"fff", "..."}}}),
                        {3, 2}, {}, heads, 2);
  };
  CHECK(without_chain(kTasks / 4).tasks() == 3 * kTasks / 4);
  const auto oblong = [](std::int64_t heads) {
    return make_problem(make_mask("full"), {3, 2}, {}, heads, 2);
  };
  CHECK(oblong(kTasks / 8).tasks() == 6 * kTasks / 8);
  CHECK_THROWS_AS(oblong(kTasks / 8 + 1), Error);
}

TEST_CASE("a limit is said with the memory that it is for, and masks by head up to four of them") {
  CHECK_THROWS_WITH(make_problem(make_mask("full"), {8'192, 8'192}, {}, 1, 1),
                    Catch::Contains("above the limit of 67108864 tasks and chains (4 GiB)"));
  const auto line = [](const char* mask, std::int64_t heads) {
    return describe(make_problem(parse_mask(mask), {2, 2}, {}, heads, 1));
  };
  CHECK(line("heads; full; causal; full; causal", 4)
            .starts_with("by head: full; causal; full; causal, 2 KV"));
  CHECK(line("heads; full; causal; full; causal; full", 5).starts_with("by head: 5 masks, 2 KV"));
}

TEST_CASE("parts of every KV head are counted where heads have masks of their own") {
  // Heads 0 and 1 share the first K and V, 2 and 3 the second; each mask has a KV tile of its own.
  const Problem problem = make_problem(
      parse_mask("heads; tiles:rows=ff+..; tiles:rows=ff+ff; tiles:rows=..+ff; tiles:rows=..+ff"),
      {2, 2}, {}, 4, 2, {.heads_kv = 2, .span = 1});
  CHECK(problem.dkv_contributions(KvHead{0}, KvTile{0}) == 2);
  CHECK(problem.dkv_contributions(KvHead{0}, KvTile{1}) == 1);
  CHECK(problem.dkv_contributions(KvHead{1}, KvTile{0}) == 0);
  CHECK(problem.dkv_contributions(KvHead{1}, KvTile{1}) == 2);
  const Problem parts = problem_of_parts(
      make_problem(make_mask("full"), {2, 2}, {}, 8, 2, {.heads_kv = 2, .span = 2}));
  CHECK(parts.heads == 4);
  CHECK(parts.span == 1);
}

TEST_CASE("ticks that could overflow are refused") {
  const auto problem = [](std::int64_t tasks, std::int64_t sms) {
    return make_problem(make_mask("full"), {tasks, 1}, {}, 1, sms);
  };
  const Problem one = problem(1, 1);
  constexpr Ticks kMost = Ticks{1} << 60;
  CHECK_NOTHROW(check_timing({.compute = kMost, .reduce = 0}, one));
  CHECK_THROWS_AS(check_timing({.compute = kMost, .reduce = 1}, one), Error);
  CHECK_THROWS_AS(check_timing({.compute = INT64_MAX, .reduce = INT64_MAX}, one), Error);
  CHECK_NOTHROW(check_timing({.compute = kMost / 2, .reduce = 0}, problem(2, 1)));
  CHECK_THROWS_AS(check_timing({.compute = kMost / 2, .reduce = 0}, problem(3, 1)), Error);
  CHECK_NOTHROW(check_timing({.compute = kMost / 1000, .reduce = 0}, problem(1, 1000)));
  CHECK_THROWS_AS(check_timing({.compute = kMost / 1000, .reduce = 1}, problem(1, 1000)), Error);
  CHECK_THROWS_AS(check_timing({.compute = 1, .latency = kMost}, one), Error);
  CHECK_THROWS_AS(check_timing({.compute = 1, .launch = kMost}, one), Error);
  CHECK_THROWS_AS(check_timing({.compute = 1, .epilogue = kMost}, one), Error);
  CHECK_THROWS_AS(check_timing({.compute = 0, .reduce = 0}, one), Error);
  // Every chain of every head has its launch.
  const Problem chains = make_problem(make_mask("full"), {1, 8}, {}, 8, 1);
  CHECK_NOTHROW(check_timing({.launch = kMost / 65}, chains));
  CHECK_THROWS_AS(check_timing({.launch = kMost / 63}, chains), Error);
  CHECK_THROWS_AS(check_timing({.latency = -1}, one), Error);
  CHECK_NOTHROW(check_timing({.compute = 0, .reduce = 1}, one));
  CHECK_THROWS_AS(check_timing({.compute_partial = 0, .reduce = 0}, one), Error);
  CHECK_THROWS_AS(check_timing({.compute_partial = -1}, one), Error);
  CHECK_THROWS_AS(check_timing({.compute_partial = kMost}, one), Error);
  CHECK_NOTHROW(check_timing({.compute_partial = 0}, one));
}

Problem model(const char* mask, std::int64_t tiles, std::int64_t heads, std::int64_t heads_kv) {
  return make_problem(make_mask(mask), {tiles * 128, tiles * 128}, {128, 128}, heads, 132,
                      {.heads_kv = heads_kv});
}

TEST_CASE("heads, KV heads, parts and chains") {
  const Problem problem = make_problem(make_mask("causal"), {4, 4}, {}, 12, 0,
                                       {.heads_kv = 2, .span = 3, .combine = Combine::ordered});
  CHECK(problem.group() == 6);
  CHECK(problem.parts() == 4);
  CHECK(problem.group_parts() == 2);
  CHECK(problem.kv_head_of(Head{5}) == KvHead{0});
  CHECK(problem.kv_head_of(Head{6}) == KvHead{1});
  CHECK(problem.part_of(Head{6}) == Part{2});
  CHECK(problem.kv_head_of(Part{2}) == KvHead{1});
  CHECK(problem.chain_length(Part{0}, KvTile{1}) == 9);
  CHECK(problem.chains() == 16);
  CHECK(problem.same_chain({Head{3}, KvTile{1}, QTile{2}}, {Head{5}, KvTile{1}, QTile{1}}));
  CHECK_FALSE(problem.same_chain({Head{2}, KvTile{1}, QTile{2}}, {Head{3}, KvTile{1}, QTile{2}}));
  CHECK(describe(problem) ==
        "causal, 4 KV x 4 Q tiles, 12 heads of 2 KV heads, 3 a chain on 4 SMs: 120 tasks");
  const Problem parts = problem_of_parts(problem);
  CHECK(parts.heads == 4);
  CHECK(parts.heads_kv == 2);
  CHECK(parts.combine == Combine::ordered);
  CHECK(with_span(problem, 6, Combine::ordered).combine == Combine::none);
  CHECK_THROWS_AS(with_span(problem, 4, Combine::partials), Error);
  CHECK_THROWS_AS(with_span(problem, 2, Combine::none), Error);
  CHECK_THROWS_WITH(with_span(problem, 0, Combine::partials), Catch::Contains("does not divide"));
  CHECK_THROWS_AS(make_problem(make_mask("full"), {4, 4}, {}, 6, 0, {.heads_kv = 4}), Error);
  CHECK_THROWS_AS(make_problem(make_mask("full"), {4, 4}, {}, 2, 0, {.heads_kv = 4}), Error);
}

TEST_CASE("heads with masks of their own have grids, chains and contributions of their own") {
  const Problem problem =
      make_problem(parse_mask("heads:heads=0+0+1+1; tiles:rows=fp+.f; tiles:rows=f.+.."), {2, 2},
                   {}, 8, 3, {.heads_kv = 2, .span = 2, .combine = Combine::ordered});
  CHECK(problem.grids.distinct().size() == 2);
  CHECK(problem.tasks() == 4 * 3 + 4 * 1);
  CHECK(problem.chain_length(Part{0}, KvTile{0}) == 4);
  CHECK(problem.chain_length(Part{1}, KvTile{0}) == 2);
  CHECK(problem.chain_length(Part{3}, KvTile{1}) == 0);
  CHECK(problem.contributions(Head{1}, QTile{1}) == 2);
  CHECK(problem.contributions(Head{2}, QTile{1}) == 0);
  CHECK(problem.kind({Head{5}, KvTile{0}, QTile{1}}) == TileKind::partial);
  CHECK_FALSE(problem.live({Head{7}, KvTile{0}, QTile{1}}));
  CHECK(problem.dkv_contributions(KvHead{1}, KvTile{0}) == 2);
  CHECK(problem.dkv_contributions(KvHead{1}, KvTile{1}) == 1);
  CHECK(problem.place_among_parts(Part{3}, KvTile{0}) == 1);
  CHECK(problem_of_parts(problem).tasks() == 2 * 3 + 2 * 1);
  CHECK_THROWS_WITH(problem.common_grid(), Catch::Contains("heads have different masks"));
  CHECK_THROWS_WITH(with_span(problem, 4, Combine::none), Catch::Contains("would be ragged"));
  CHECK_THROWS_WITH(expect_one_mask(problem, "this"), Catch::StartsWith("this does not know"));
  CHECK(describe(problem) ==
        "by head: tiles; tiles, 2 KV x 2 Q tiles, 8 heads of 2 KV heads, 2 a chain on 3 SMs: 16 "
        "tasks");
}

TEST_CASE("grids that are alike are one grid, whichever masks they are of") {
  const Problem alike =
      make_problem(parse_mask("heads; causal; tiles:rows=ff+.f"), {2, 2}, {}, 4, 0);
  CHECK(alike.grids.all_alike());
  CHECK(alike.grids == make_problem(make_mask("causal"), {2, 2}, {}, 4, 0).grids);
  CHECK_THROWS_AS(expect_one_mask(alike, "this"), Error);
  const Problem first = make_problem(parse_mask("heads; causal; full"), {2, 2}, {}, 4, 0);
  const Problem second =
      make_problem(parse_mask("heads:heads=1+0+1+0; full; causal; full"), {2, 2}, {}, 4, 0);
  CHECK(first.grids == second.grids);
  CHECK_FALSE(first.grids ==
              make_problem(parse_mask("heads; full; causal"), {2, 2}, {}, 4, 0).grids);
}

TEST_CASE("a span is chosen within which masks are alike") {
  const auto span_of = [](const char* mask) {
    const Problem problem = make_problem(parse_mask(mask), {8, 8}, {}, 8, 2, {.heads_kv = 1});
    return span_rule(problem);
  };
  CHECK(span_of("causal").span == 8);
  CHECK(span_of("heads:heads=0+0+0+0+1+1+1+1; causal; full").span == 4);
  CHECK(span_of("heads; causal; full").span == 1);
  CHECK_THAT(span_of("heads; causal; full").why,
             Catch::Contains("of 2 heads some have other masks"));
}

TEST_CASE("the span rule on real models: 132 SMs, tiles of 128 x 128") {
  CHECK(model("causal", 64, 32, 8).span == 4);   // LLaMA3-8B 8k
  CHECK(model("causal", 64, 28, 4).span == 1);   // Qwen2.5-7B 8k: 448 tasks, 441 an SM
  CHECK(model("causal", 128, 28, 4).span == 7);  // 16k
  CHECK(model("causal", 64, 8, 1).span == 1);    // 70B under TP8, 8k: 126 tasks an SM
  CHECK(model("causal", 256, 8, 1).span == 4);   // 32k: 1,993 an SM, 8 heads would be 2,048
  CHECK(model("causal", 64, 8, 8).span == 1);
  CHECK(span_rule(model("causal", 64, 32, 8)).why ==
        "chains of up to 256 tasks, an SM's share is 504, and at least two chains an SM: free");
  CHECK(span_rule(model("causal", 256, 8, 1)).why ==
        "chains of up to 1024 tasks, an SM's share is 1993; with 8 heads a chain would have 2048");
}

TEST_CASE("of a table the tasks that exist are kept, in their lanes") {
  Table table;
  table.name = "odd";
  table.problem = make_problem(make_mask("full"), {2, 2}, {}, 1, 3);
  const auto add = [&](std::int32_t head, std::int32_t kv, std::int32_t q) {
    table.slots.push_back({{Head{head}, KvTile{kv}, QTile{q}}, 0});
  };
  add(0, 0, 0);
  add(0, 2, 0);
  add(1, 0, 0);
  table.end_lane();
  add(0, 0, -1);
  table.end_lane();
  add(0, 1, 2);
  add(0, 1, 1);
  table.end_lane();
  const Table known = existing_tasks(table);
  CHECK(known.name == "odd");
  REQUIRE(known.lanes() == 3);
  CHECK(known.lane(Lane{0}).size() == 1);
  CHECK(known.lane(Lane{1}).empty());
  CHECK(known.lane(Lane{2}).size() == 1);
  REQUIRE(known.slots.size() == 2);
  CHECK(known.slots[0] == table.slots[0]);
  CHECK(known.slots.back() == table.slots.back());
}

TEST_CASE("what knows one mask takes all heads' alone") {
  const auto problem = [](const char* mask) {
    return make_problem(parse_mask(mask), {4, 4}, {}, 2, 2);
  };
  CHECK_NOTHROW(expect_one_mask(problem("causal"), "a plan"));
  CHECK_THROWS_WITH(expect_one_mask(problem("heads; causal; full"), "a plan"),
                    "a plan does not know heads with masks of their own yet: give one mask for all "
                    "heads");
}

}  // namespace
}  // namespace stagger
