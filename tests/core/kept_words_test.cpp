// What is understood of timelines, masks and problems with one piece wrong, kept in
// tests/golden/core-words.txt: what is read comes back as it was understood, or is refused in
// these words.

#include "core/files.hpp"
#include "core/json_value.hpp"
#include "core/limits.hpp"
#include "core/table.hpp"
#include "tests/support/broken.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/golden.hpp"
#include "tests/support/random.hpp"

#include <sstream>
#include <string>
#include <string_view>

namespace stagger {
namespace {

Timeline drawn_timeline(test::Random& random) {
  Timeline drawn{.clock = random.chance(2) ? "ns" : "ticks",
                 .device = random.chance(2) ? "a \"GPU\"" : "",
                 .sms = static_cast<std::int32_t>(random.between(1, 3)),
                 .heads = static_cast<std::int32_t>(random.between(1, 3)),
                 .lower_bound = random.between(0, 20),
                 .hangs = random.chance(2),
                 .title = random.chance(2) ? "µ \\ title" : ""};
  if (random.chance(2)) {
    drawn.dq = DqMemory{.tile_bytes = random.between(1, 9), .l2_bytes = random.between(1, 9)};
  }
  for (std::int32_t sm = 0; sm < drawn.sms; ++sm) {
    for (Ticks time = random.between(0, 5); time < 20; time += random.between(1, 9)) {
      drawn.intervals.push_back(
          {.sm = Sm{sm},
           .task = {Head{static_cast<std::int32_t>(random.between(0, drawn.heads - 1))},
                    KvTile{static_cast<std::int32_t>(random.between(0, 9))},
                    QTile{static_cast<std::int32_t>(random.between(0, 9))}},
           .phase = static_cast<Phase>(random.between(0, 5)),
           .start = time,
           .end = time + random.between(0, 9),
           .rank = static_cast<std::int32_t>(random.between(0, 9)),
           .critical = random.chance(3)});
      drawn.makespan = std::max(drawn.makespan, drawn.intervals.back().end);
    }
  }
  return drawn;
}

TEST_CASE("a timeline comes back from its file as it was") {
  test::Random random(test::seed(123));
  for (int round = 0; round < 300; ++round) {
    const Timeline drawn = drawn_timeline(random);
    const std::string text = write_timeline_json(drawn);
    const Timeline read = read_timeline_json(text, "line");
    CAPTURE(text);
    REQUIRE(read.clock == drawn.clock);
    REQUIRE(read.device == drawn.device);
    REQUIRE(read.sms == drawn.sms);
    REQUIRE(read.heads == drawn.heads);
    REQUIRE(read.makespan == drawn.makespan);
    REQUIRE(read.lower_bound == drawn.lower_bound);
    REQUIRE(read.hangs == drawn.hangs);
    REQUIRE(read.title == drawn.title);
    REQUIRE(read.dq == drawn.dq);
    REQUIRE(read.intervals == drawn.intervals);
    REQUIRE(write_timeline_json(read) == text);
  }
}

TEST_CASE("what is understood of files and words with a piece missing or wrong is as kept") {
  test::Random random(124);
  std::ostringstream text;
  std::ostringstream broken;
  const auto keep = [&](const std::string& whole, const char* pieces, bool in_full, auto read) {
    broken.str("");
    test::break_everywhere(broken, whole, pieces, read);
    text << whole << "\n" << (in_full ? broken.str() : test::text_digest(broken.str()) + "\n");
  };
  for (int round = 0; round < 6; ++round) {
    keep(write_timeline_json(drawn_timeline(random)), ",:[{", false,
         [](const std::string& changed) {
           return test::text_digest(write_timeline_json(read_timeline_json(changed, "line")));
         });
  }
  const auto read_mask = [](const std::string& changed) {
    return mask_words(read_mask_json(changed, "mask"));
  };
  for (const MaskFamily& family : mask_families()) {
    keep(family.example, ",:=+&|() ", false,
         [](const std::string& changed) { return mask_words(parse_mask(changed)); });
    keep(mask_json(parse_mask(family.example)).line(), ",:[{",
         std::string_view(family.name) == "sliding", read_mask);
  }
  keep(" full & ( causal|sliding:left=1 )|(full) ", ",:=+&|() ", true,
       [](const std::string& changed) { return mask_words(parse_mask(changed)); });
  keep(write_mask_json(test::tiles_problem({"f.", "pf"}, 1, 1).common_grid()), ",:[{", true,
       read_mask);
  CHECK(test::golden_difference("core-words.txt", text.str()) == "");
}

TEST_CASE("masks are nested as deep and have as many parts as is said, and no more") {
  const auto nested = [](int depth) {
    return std::string(at(depth), '(') + "full" + std::string(at(depth), ')');
  };
  CHECK_NOTHROW(parse_mask(nested(kMaxJsonDepth)));
  CHECK_THROWS_AS(parse_mask(nested(kMaxJsonDepth + 1)), Error);
  const auto parts = [](int count) {
    std::string words = "full";
    for (int part = 1; part < count; ++part)
      words += " & full";
    return words;
  };
  // What joins them is one too.
  CHECK_NOTHROW(parse_mask(parts(kMaxMaskParts - 1)));
  CHECK_THROWS_AS(parse_mask(parts(kMaxMaskParts)), Error);
}

TEST_CASE("texts are quoted for JSON as they are, and what is no UTF-8 is replaced") {
  CHECK(json_quote("a µ \" \\ \n") == "\"a µ \\\" \\\\ \\n\"");
  CHECK(json_quote("\xff") == "\"\xef\xbf\xbd\"");
}

TEST_CASE("a table whose times could overflow is refused, whatever its problem says") {
  // Twice the tasks that the problem has, of which each would still fit alone.
  Table table;
  table.problem = make_problem(make_mask("full"), {1, 1}, {}, 1, 1);
  constexpr Ticks kMost = Ticks{1} << 60;
  const Timing timing{.compute = kMost / 2, .reduce = 0};
  for (const std::int32_t slots : {1, 2, 3}) {
    table.slots.push_back({{Head{0}, KvTile{0}, QTile{0}}, 0});
    Table ended = table;
    ended.end_lane();
    if (slots < 3) {
      CHECK_NOTHROW(check_timing(timing, ended));
    } else {
      CHECK_THROWS_AS(check_timing(timing, ended), Error);
    }
  }
}

TEST_CASE("a file's problem has the tiles that its lengths make") {
  const Table table = [] {
    Table made;
    made.problem = make_problem(make_mask("full"), {5, 7}, {2, 3}, 1, 1);
    return made;
  }();
  const std::string text = write_table_json(table);
  CHECK_NOTHROW(read_table_json(text, "t"));
  for (const auto& [from, to] :
       {std::pair{"\"kv_tiles\": 3", "\"kv_tiles\": 4"},
        std::pair{"\"q_tiles\": 3", "\"q_tiles\": 2"}, std::pair{"\"seq_q\": 5", "\"seq_q\": 7"},
        std::pair{"\"tile_kv\": 3", "\"tile_kv\": 4"}}) {
    const std::string changed = test::replaced(text, from, to);
    CHECK(test::said([&] {
            static_cast<void>(read_table_json(changed, "t"));
            return std::string();
          }).find("the lengths make") != std::string::npos);
  }
  // A problem of nothing is one.
  Table nothing;
  nothing.problem = make_problem(make_mask("full"), {0, 0}, {}, 1, 1);
  const Table read = read_table_json(write_table_json(nothing), "t");
  CHECK(read.problem.kv_tiles() == 0);
  CHECK(read.problem.q_tiles() == 0);
}

}  // namespace
}  // namespace stagger
