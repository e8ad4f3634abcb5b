#include "core/files.hpp"

#include "core/error.hpp"
#include "core/limits.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random.hpp"
#include "tests/support/refusal.hpp"

#include <functional>

namespace stagger {
namespace {

const std::string kTable =
    R"({"schema": "stagger.table/1", "name": "mine",
 "problem": {"heads": 1, "kv_tiles": 2, "q_tiles": 2, "sms": 2,
             "mask": {"kind": "tiles", "rows": ["ff", ".f"]}},
 "dispatch": "static",
 "lanes": [[[0,0,0,0],[0,0,1,1]], [[0,1,1,0]]]})";

void expect_same(const Table& left, const Table& right) {
  CHECK(left.problem.grids == right.problem.grids);
  CHECK(left.problem.heads == right.problem.heads);
  CHECK(left.problem.sms == right.problem.sms);
  CHECK(left.dispatch == right.dispatch);
  CHECK(left.slots == right.slots);
  CHECK(left.lane_begin == right.lane_begin);
}

TEST_CASE("the table of the documentation reads as it says") {
  const Table table = read_table_json(kTable, "mine");
  CHECK(table.name == "mine");
  CHECK(table.lanes() == 2);
  CHECK(table.problem.tasks() == 3);
  CHECK(table.lane(Lane{1}).front() == Slot{{Head{0}, KvTile{1}, QTile{1}}, 0});
}

TEST_CASE("tables survive JSON and CSV, in every mask, dispatch and shape") {
  test::Random random(3);
  for (int round = 0; round < 300; ++round) {
    const Problem problem = test::any_problem(random, 6);
    const Table table = test::random_table(
        random, problem, random.chance(2) ? Dispatch::static_ : Dispatch::in_order);
    CAPTURE(round);
    const Table json = read_table_json(write_table_json(table), "json");
    const Table csv = read_table_csv(write_table_csv(table), "csv", nullptr);
    expect_same(json, table);
    expect_same(csv, table);
    CHECK(json.name == "random");
    CHECK(csv.name == "random");
  }
}

TEST_CASE("a CSV says how parts are combined, and JSON no rank of a chain that has no tiles") {
  test::Random random(4);
  for (const Combine combine : {Combine::partials, Combine::ordered}) {
    const Problem problem = make_problem(parse_mask("tiles:rows=ff+..+pf"), {2, 3}, {}, 4, 2,
                                         {.heads_kv = 2, .span = 1, .combine = combine});
    Table table = test::random_table(random, problem, Dispatch::static_);
    if (combine == Combine::ordered) test::shuffle_dkv_ranks(random, table);
    const Table csv = read_table_csv(write_table_csv(table), "csv", nullptr);
    CHECK(csv.problem.combine == combine);
    CHECK(csv.dkv_ranks == table.dkv_ranks);
    const std::string json = write_table_json(table);
    CHECK(read_table_json(json, "json").dkv_ranks == table.dkv_ranks);
    CHECK(json.find(",-1]") == std::string::npos);
    CHECK((json.find("\"ranks\"") != std::string::npos) == (combine == Combine::ordered));
  }
}

TEST_CASE("a CSV of cells alone takes its problem from elsewhere") {
  const Problem problem = read_table_json(kTable, "mine").problem;
  const Table table = read_table_csv("0:0:0:0, 0:0:1:1\r\n\"0:1:1:0\"\n", "cells", &problem);
  expect_same(table, read_table_json(kTable, "mine"));
  // Quoted or not, side by side, and empty.
  for (const char* text :
       {"0:0:0:0,\"0:0:1:1\"\n\"\",\"0:1:1:0\"\n", "\"0:0:0:0\",0:0:1:1,\"\"\n\"\",0:1:1:0\n"}) {
    const Table same = read_table_csv(text, "cells", &problem);
    CHECK(same.slots == table.slots);
    CHECK(same.lane_begin == table.lane_begin);
  }
  CHECK_THROWS_AS(read_table_csv("0:0:0:0\n", "cells", nullptr), Error);
}

TEST_CASE("token-level problems keep their lengths and tiles") {
  Table table;
  table.name = "tokens \"quoted\"";
  table.problem =
      make_problem(parse_mask("sliding:left=100,right=0"), {1000, 1500}, {64, 128}, 2, 3);
  table.end_lane();
  const Table json = read_table_json(write_table_json(table), "json");
  CHECK(json.name == table.name);
  const std::string text = write_table_csv(table);
  CHECK(text.find(",seq_q=1000,seq_kv=1500,tile_q=64,tile_kv=128,"
                  "\"mask=sliding:left=100,right=0\"\n") != std::string::npos);
  for (const Table& read : {json, read_table_csv(text, "csv", nullptr)}) {
    CHECK(read.problem.lengths == table.problem.lengths);
    CHECK(read.problem.shape == table.problem.shape);
    CHECK(mask_words(read.problem.mask) == "sliding:left=100,right=0");
    expect_same(read, table);
  }
}

TEST_CASE("a CSV keeps every mask's words, lengths and tiles, and says what does not go together") {
  test::Random random(7);
  int quoted = 0;
  for (int round = 0; round < 400; ++round) {
    const std::string left = std::to_string(random.between(0, 40));
    const std::string words[] = {"full",
                                 "causal",
                                 "sliding:left=" + left + ",right=0",
                                 "prefix:length=" + left + " & sliding:left=9,right=3",
                                 "(causal | prefix:length=" + left + ") & sliding:left=12,right=30",
                                 "heads:heads=0+1; causal; sliding:left=" + left + ",right=2"};
    Table table;
    table.problem = make_problem(parse_mask(words[random.between(0, 5)]),
                                 {.q = random.between(1, 40), .kv = random.between(1, 40)},
                                 {.q = random.between(1, 9), .kv = random.between(1, 9)}, 2, 3);
    table.end_lane();
    const std::string text = write_table_csv(table);
    CAPTURE(round, text);
    const Table read = read_table_csv(text, "csv", nullptr);
    REQUIRE(
        read.problem.lengths.q ==
        (table.problem.shape == TileShape{} ? table.problem.q_tiles() : table.problem.lengths.q));
    REQUIRE(read.problem.shape == table.problem.shape);
    REQUIRE(read.problem.grids == table.problem.grids);
    REQUIRE(write_table_csv(read) == text);
    quoted += text.find('"') != std::string::npos ? 1 : 0;
  }
  CHECK(quoted > 50);
  // Some programs quote every cell, empty ones too; and there may be no token at all.
  const std::string all =
      "\"stagger.table/1\",\"heads=1\",\"kv_tiles=2\",\"\",\"q_tiles=2\",\"sms=1\","
      "\"mask=sliding:left=1,right=0\",\"\"\r\n\"0:0:0:0\",\"0:0:1:0\"\r\n";
  CHECK(is_table_csv(all));
  CHECK(read_table_csv(all, "csv", nullptr).slots.size() == 2);
  CHECK(mask_words(read_table_csv(all, "csv", nullptr).problem.mask) == "sliding:left=1,right=0");
  CHECK_FALSE(is_table_csv("0:0:0:0\n"));
  Table empty;
  empty.problem = make_problem(parse_mask("document:lengths=0"), {0, 0}, {4, 4}, 1, 2);
  empty.end_lane();
  expect_same(read_table_csv(write_table_csv(empty), "csv", nullptr), empty);
  expect_same(read_table_json(write_table_json(empty), "json"), empty);
  CHECK(write_table_csv(empty).find(",seq_q=0,") != std::string::npos);
  const std::string row = "stagger.table/1,heads=1,kv_tiles=2,q_tiles=3,sms=1,mask=causal";
  const auto read = [&](const std::string& more) {
    return test::said([&] {
      const Problem problem = read_table_csv(row + more + "\n", "csv", nullptr).problem;
      return std::to_string(problem.lengths.q) + " of " + std::to_string(problem.shape.q) + ", " +
             std::to_string(problem.lengths.kv) + " of " + std::to_string(problem.shape.kv);
    });
  };
  CHECK(read("") == "3 of 1, 2 of 1");
  CHECK(read(",seq_q=9,seq_kv=7,tile_q=4,tile_kv=4") == "9 of 4, 7 of 4");
  CHECK(read(", \"seq_q=9\" , \"seq_kv=7\",tile_q=4,\"tile_kv=4\"") == "9 of 4, 7 of 4");
  CHECK(read(",seq_q=9,seq_kv=9,tile_q=4,tile_kv=4") ==
        "refused 1: csv: row 1: the lengths make 3 KV and 3 Q tiles, not 2 and 3");
  CHECK(read(",seq_q=5,seq_kv=7,tile_q=4,tile_kv=4") ==
        "refused 1: csv: row 1: the lengths make 2 KV and 2 Q tiles, not 2 and 3");
  CHECK(read(",tile_q=0") ==
        "refused 1: csv: row 1: '0' is not an integer from 1 to " + std::to_string(kMaxTokens));
}

TEST_CASE("a CSV's name keeps what a row can hold") {
  Table table = read_table_json(kTable, "mine");
  const auto name_of = [&](const char* name) {
    table.name = name;
    return read_table_csv(write_table_csv(table), "csv", nullptr).name;
  };
  CHECK(name_of("mine") == "mine");
  CHECK(name_of("spt:swizzle=8,x") == "spt:swizzle8x");
  CHECK(name_of("two\nlines \"quoted\"") == "twolines quoted");
  CHECK(name_of("für n→∞") == "für n→∞");
}

TEST_CASE("a byte order mark before a file, as Excel writes it, is not read") {
  const std::string mark = "\xEF\xBB\xBF";
  const Table table = read_table_json(kTable, "mine");
  expect_same(read_table_json(mark + kTable, "json"), table);
  expect_same(read_table_csv(mark + write_table_csv(table), "csv", nullptr), table);
  // A spreadsheet fills up its rows.
  std::string padded = write_table_csv(table);
  padded.insert(padded.find('\n'), ", ,,");
  expect_same(read_table_csv(padded, "csv", nullptr), table);
  expect_same(read_table_csv(mark + "0:0:0:0,0:0:1:1\r\n0:1:1:0\r\n", "cells", &table.problem),
              table);
  CHECK_THROWS_AS(read_table_csv(mark + mark + write_table_csv(table), "csv", nullptr), Error);
}

std::string message_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

std::string replaced(const std::string& from, const std::string& to) {
  std::string text = kTable;
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

TEST_CASE("a broken table is refused with the path of what is wrong") {
  const auto contains = [](const std::string& text, const std::string& words) {
    const std::string message = message_of([&] { (void)read_table_json(text, "file"); });
    CAPTURE(message, words);
    CHECK(message.find(words) != std::string::npos);
  };
  contains("", "file: ");
  contains("[1, 2", "parse error");
  contains("[]", "must be an object");
  contains(replaced("stagger.table/1", "stagger.table/9"), "/schema: unknown schema");
  contains(replaced("\"name\"", "\"nmae\""), "unknown key 'nmae'; known: schema, name");
  contains(replaced("\"dispatch\": \"static\",", ""), "key 'dispatch' is missing");
  contains(replaced("\"static\"", "\"dynamic\""), "/dispatch: unknown dispatch");
  contains(replaced("[0,0,1,1]", "[0,0,1]"), "/lanes/0/1: a slot is [head, kv, q, rank]");
  contains(replaced("[0,0,1,1]", "[0,0,1.5,1]"), "/lanes/0/1/2: must be an integer");
  contains(replaced("[0,0,1,1]", "[0,0,99999999999999999999,1]"), "/lanes/0/1/2: must be");
  contains(replaced("[0,0,1,1]", "7"), "/lanes/0/1: must be an array");
  contains(replaced("\"heads\": 1", "\"heads\": 0"), "/problem/heads: must be an integer from 1");
  contains(replaced("\"heads\": 1", "\"heads\": 1, \"heads\": 2"), "given twice");
  contains(replaced("\"rows\"", "\"colums\""), "/problem/mask: tiles: unknown key 'colums'");
  contains(replaced("\".f\"", "\".g\""), "unknown tile 'g'");
  contains(replaced("\"kv_tiles\": 2", "\"kv_tiles\": 3"), "/problem/mask: tiles: 2 rows for 3");
  contains(std::string(100'000, '['), "nested deeper");
}

TEST_CASE("a broken CSV is refused with its lane and cell") {
  const Problem problem = read_table_json(kTable, "mine").problem;
  const auto message = [&](const std::string& text) {
    return message_of([&] { (void)read_table_csv(text, "file", &problem); });
  };
  CHECK(message("0:0:0:0,0:0:x:0\n") ==
        "file: lane 0, cell 2: 'x' is not an integer from -2147483647 to 2147483647");
  CHECK(message("0:0:0\n") == "file: lane 0, cell 1: '0:0:0' is not head:kv:q:rank");
  for (const char* cell : {"0:0:0:0:0", "0:0:0:0:", ":0:0:0:0", "0:0:", "0", "0:0:0:0:0:0"}) {
    CHECK(message(cell) ==
          "file: lane 0, cell 1: '" + std::string(cell) + "' is not head:kv:q:rank");
  }
  for (const char* cell : {"0::0:0", "0:0:0:", ":0:0:0"})
    CHECK(message(cell).find("'' is not an integer") != std::string::npos);
  const std::string header = "stagger.table/1,heads=1,kv_tiles=2,q_tiles=2,sms=2,mask=full";
  CHECK(message(header + "\n") == "no error");
  CHECK(message(header + ",heads=1\n") == "file: row 1: key 'heads' is given twice");
  CHECK(message(header + ",mask=causal\n") == "file: row 1: key 'mask' is given twice");
  CHECK(message("stagger.table/1,heads=1\n").find("key 'q_tiles' is missing") != std::string::npos);
}

TEST_CASE("timelines survive JSON") {
  Timeline timeline;
  timeline.clock = "ns";
  timeline.device = "a device";
  timeline.sms = 2;
  timeline.heads = 1;
  timeline.makespan = 9;
  timeline.intervals = {{.sm = Sm{0}, .task = {}, .phase = Phase::compute, .start = 0, .end = 5},
                        {.sm = Sm{1},
                         .task = {Head{0}, KvTile{1}, QTile{2}},
                         .phase = Phase::wait,
                         .start = 5,
                         .end = 9,
                         .rank = 3,
                         .critical = true}};
  const Timeline read = read_timeline_json(write_timeline_json(timeline), "timeline");
  CHECK(read.clock == "ns");
  CHECK(read.device == timeline.device);
  REQUIRE(read.intervals.size() == 2);
  CHECK(read.intervals[1].task == timeline.intervals[1].task);
  CHECK(read.intervals[1].critical);
  CHECK(read.intervals[1].rank == 3);
  CHECK_FALSE(read.dq);
  timeline.dq = DqMemory{.tile_bytes = 16'384, .l2_bytes = 51'736'832};
  const std::string text = write_timeline_json(timeline);
  CHECK(read_timeline_json(text, "timeline").dq == timeline.dq);
  CHECK(text.find(R"("dq": {"tile_bytes": 16384, "l2_bytes": 51736832})") != std::string::npos);
  const auto with_tile = [](const char* bytes) {
    return std::string(R"({"schema": "stagger.timeline/1", "clock": "ns", "sms": 1, "heads": 1,
      "makespan": 1, "intervals": [], "dq": {"l2_bytes": 1, "tile_bytes": )") +
           bytes + "}}";
  };
  CHECK(read_timeline_json(with_tile("4294967296"), "most").dq->tile_bytes == 1LL << 32);
  CHECK_THROWS_AS(read_timeline_json(with_tile("0"), "none"), Error);
  CHECK_THROWS_AS(read_timeline_json(with_tile("4294967297"), "more"), Error);
  std::string without_cache = with_tile("1");
  without_cache.replace(without_cache.find(R"("l2_bytes": 1)"), 13, R"("l2_bytes": 0)");
  CHECK_THROWS_AS(read_timeline_json(without_cache, "none"), Error);
  CHECK_THROWS_AS(read_timeline_json(R"({"schema": "stagger.timeline/1"})", "none"), Error);
}

/// Two heads of one KV head, one tile each, two chains in order; `problem` and `dkv` to be broken.
std::string grouped_table(const std::string& schema, const std::string& heads_kv,
                          const std::string& dkv) {
  return R"({"schema": ")" + schema + R"(", "problem": {"heads": 2, )" + heads_kv +
         R"("kv_tiles": 1, "q_tiles": 1, "sms": 2, "mask": {"kind": "full"}},
 "dispatch": "static", )" +
         dkv + R"("lanes": [[[0,0,0,0]], [[1,0,0,0]]]})";
}

TEST_CASE("a table with groups says what it promises of dK and dV") {
  const std::string two = "stagger.table/2";
  const std::string shared = R"("heads_kv": 1, )";
  const Table table = read_table_json(grouped_table(two, shared,
                                                    R"("dkv": {"span": 1, "combine": "ordered",
                       "ranks": [[0,0,0,1], [0,0,1,0]]}, )"),
                                      "grouped");
  CHECK(table.problem.heads_kv == 1);
  CHECK(table.problem.combine == Combine::ordered);
  CHECK(table.dkv_rank(Part{0}, KvTile{0}) == 1);
  CHECK(table.dkv_rank(Part{1}, KvTile{0}) == 0);
  const Table whole =
      read_table_json(grouped_table(two, shared, R"("dkv": {"span": 2, "combine": "none"}, )"), "");
  CHECK(whole.problem.span == 2);
  CHECK(whole.problem.same_chain(whole.slots[0].task, whole.slots[1].task));
  // Without groups there is nothing to promise.
  CHECK(read_table_json(grouped_table(two, "", ""), "").problem.heads_kv == 2);
  CHECK(write_table_json(read_table_json(grouped_table(two, "", ""), "")).find("stagger.table/1") !=
        std::string::npos);

  const auto refused = [&](const std::string& schema, const std::string& heads_kv,
                           const std::string& dkv) -> std::string {
    try {
      static_cast<void>(read_table_json(grouped_table(schema, heads_kv, dkv), "t"));
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::invalid_input);
      return error.what();
    }
    return "";
  };
  const auto says = [](const std::string& message, const char* part) {
    return message.find(part) != std::string::npos;
  };
  CHECK(says(refused("stagger.table/1", shared, ""), "/problem/heads_kv"));
  CHECK(says(refused("stagger.table/1", "", R"("dkv": {"span": 1, "combine": "none"}, )"), "dkv"));
  CHECK(says(refused(two, shared, ""), "dkv"));
  CHECK(says(refused(two, R"("heads_kv": 3, )", ""), "heads_kv"));
  CHECK(says(refused(two, shared, R"("dkv": {"span": 3, "combine": "none"}, )"), "/dkv/span"));
  CHECK(says(refused(two, shared, R"("dkv": {"span": 2, "combine": "ordered"}, )"), "combine"));
  CHECK(says(refused(two, shared, R"("dkv": {"span": 1, "combine": "none"}, )"), "combine"));
  CHECK(says(refused(two, shared, R"("dkv": {"span": 1, "combine": "partials", "ranks": []}, )"),
             "/dkv/ranks"));
  CHECK(says(
      refused(two, shared, R"("dkv": {"span": 1, "combine": "ordered", "ranks": [[0,0,2,0]]}, )"),
      "/dkv/ranks/0/2"));
  CHECK(says(refused(two, shared,
                     R"("dkv": {"span": 1, "combine": "ordered",
                        "ranks": [[0,0,0,0], [0,0,0,1]]}, )"),
             "/dkv/ranks/1"));
}

TEST_CASE("a first row with heads_kv has span and combine, however many KV heads there are") {
  for (const char* const heads_kv : {"1", "2", "4"}) {
    const std::string row = std::string("stagger.table/2,heads=4,kv_tiles=1,q_tiles=1,sms=4,") +
                            "mask=full,heads_kv=" + heads_kv;
    const auto read = [&](const std::string& more) {
      return test::said([&] {
        const Problem problem = read_table_csv(row + more + "\n", "csv", nullptr).problem;
        return std::to_string(problem.heads_kv) + " " + std::to_string(problem.span);
      });
    };
    const std::string lacks = "refused 1: csv: row 1: with heads_kv there must be span and combine";
    CAPTURE(heads_kv);
    CHECK(read("") == lacks);
    CHECK(read(",span=1") == lacks);
    CHECK(read(",combine=partials") == lacks);
    const bool alone = heads_kv == std::string("4");
    CHECK(read(std::string(",span=1,combine=") + (alone ? "none" : "partials")) ==
          std::string(heads_kv) + " 1");
  }
}

TEST_CASE("a table says what its mask was made from, line by line") {
  Table table = read_table_json(kTable, "mine");
  table.problem.mask.origin = {.format = "flex", .understood = {"a", "b", "c"}, .lost = {"d"}};
  const MaskOrigin read = read_table_json(write_table_json(table), "again").problem.mask.origin;
  CHECK(read.format == "flex");
  CHECK(read.understood == std::vector<std::string>{"a", "b", "c"});
  CHECK(read.lost == std::vector<std::string>{"d"});
}

}  // namespace
}  // namespace stagger
