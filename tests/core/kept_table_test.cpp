// Files of tables, whole and broken, and their digests, kept in tests/golden/core-tables.txt and
// core-broken.txt. What they must say is tested elsewhere; here no letter of it changes unseen.

#include "core/files.hpp"
#include "core/order_digest.hpp"
#include "core/span.hpp"
#include "core/table_digest.hpp"
#include "tests/support/broken.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/golden.hpp"
#include "tests/support/random.hpp"
#include "tests/support/refusal.hpp"

#include <algorithm>
#include <sstream>
#include <string>

namespace stagger {
namespace {

Table drawn_table(test::Random& random) {
  Table table = test::drawn_table(
      random, 4, [] { return true; }, 4);
  test::perhaps_shuffle_dkv_ranks(random, table);
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

TEST_CASE("what is said of CSV and JSON with a piece missing or wrong is as kept") {
  test::Random random(122);
  std::ostringstream text;
  for (int round = 0; round < 4; ++round) {
    const Table table = drawn_table(random);
    const std::string csv = write_table_csv(table);
    std::ostringstream broken;
    test::break_everywhere(broken, csv, ",=:\n", [](const std::string& changed) {
      static_cast<void>(read_table_csv(changed, "csv", nullptr));
      return "is read";
    });
    test::break_everywhere(broken, write_table_json(table), ",:[{\n",
                           [](const std::string& changed) {
                             static_cast<void>(read_table_json(changed, "json"));
                             return "is read";
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
      text << csv << (given == nullptr ? " alone: " : " given: ") << test::said([&] {
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
    return test::said([&] {
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

}  // namespace
}  // namespace stagger
