// Tables worked out by hand from the published rules: a row per SM, `KV tile: Q@rank …`.

#include "schedules/schedule.hpp"
#include "sim/simulate.hpp"
#include "tests/support/catch.hpp"

#include <sstream>

namespace stagger {
namespace {

std::string lanes_of(const Table& table) {
  std::ostringstream text;
  for (Lane lane{0}; lane.value < table.lanes(); ++lane) {
    for (std::int64_t slot = table.begin_of(lane); slot < table.end_of(lane); ++slot) {
      const auto& [task, rank] = table.slots[slot];
      if (table.begins_chain(lane, slot)) {
        text << (slot == table.begin_of(lane) ? "" : " | ");
        if (table.problem.heads > 1) text << "h" << task.head.value << " ";
        text << task.kv.value << ":";
      }
      text << " " << task.q.value << "@" << rank;
    }
    text << "\n";
  }
  return text.str();
}

Table table_of(const char* schedule, const char* mask, std::int64_t n_q, std::int64_t n_kv,
               std::int64_t heads, std::int64_t sms) {
  // Q tiles of one token, KV tiles of n_q / n_kv tokens.
  return schedules::build(
      schedules::select(schedule),
      make_problem(make_mask(mask), {n_q, n_q}, {.q = 1, .kv = n_q / n_kv}, heads, sms));
}

Ticks makespan_of(const Table& table) {
  return sim::simulate(table, {.compute = 1, .reduce = 1}).makespan;
}

TEST_CASE("shift, 4 x 4 on 4 SMs") {
  const Table table = table_of("shift", "full", 4, 4, 1, 4);
  CHECK(lanes_of(table) ==
        "0: 0@0 1@1 2@2 3@3\n"
        "1: 1@0 2@1 3@2 0@3\n"
        "2: 2@0 3@1 0@2 1@3\n"
        "3: 3@0 0@1 1@2 2@3\n");
  CHECK(makespan_of(table) == 8);
}

TEST_CASE("shift in waves, 4 x 4 on 2 SMs") {
  const Table table = table_of("shift", "full", 4, 4, 1, 2);
  CHECK(lanes_of(table) ==
        "0: 0@0 1@1 2@1 3@1 | 2: 0@2 1@3 2@3 3@3\n"
        "1: 1@0 2@0 3@0 0@1 | 3: 1@2 2@2 3@2 0@3\n");
  CHECK(makespan_of(table) == 16);
}

TEST_CASE("shift, a head that straddles waves: 4 x 4, 2 heads on 3 SMs") {
  const Table table = table_of("shift", "full", 4, 4, 2, 3);
  CHECK(lanes_of(table) ==
        "h0 0: 0@0 1@1 2@2 3@2 | h0 3: 0@3 1@3 2@3 3@3 | h1 2: 0@2 1@3 2@3 3@3\n"
        "h0 1: 1@0 2@1 3@1 0@2 | h1 0: 0@0 1@1 2@1 3@1 | h1 3: 1@2 2@2 3@2 0@3\n"
        "h0 2: 2@0 3@0 0@1 1@2 | h1 1: 1@0 2@0 3@0 0@1\n");
  CHECK(makespan_of(table) == 24);
}

TEST_CASE("symmetric shift, 8 x 8 on 4 SMs") {
  const Table table = table_of("symmetric-shift", "causal", 8, 8, 1, 4);
  CHECK(lanes_of(table) ==
        "0: 3@0 4@1 5@2 6@3 7@3 0@0 1@1 2@2 | 7: 7@7\n"
        "1: 4@0 5@1 6@2 7@2 3@3 1@0 2@1 | 6: 7@6 6@6\n"
        "2: 5@0 6@1 7@1 3@2 4@3 2@0 | 5: 7@5 6@5 5@5\n"
        "3: 6@0 7@0 3@1 4@2 5@3 | 4: 7@4 6@4 5@4 4@4\n");
  CHECK(makespan_of(table) == 18);
}

TEST_CASE("symmetric shift in waves, 8 x 8 on 2 SMs") {
  const Table table = table_of("symmetric-shift", "causal", 8, 8, 1, 2);
  CHECK(lanes_of(table) ==
        "0: 1@0 2@1 3@1 4@1 5@1 6@1 7@1 0@0 | 7: 7@3 | 2: 3@2 4@3 5@3 6@4 7@5 2@2 | "
        "5: 7@7 6@6 5@5\n"
        "1: 2@0 3@0 4@0 5@0 6@0 7@0 1@1 | 6: 7@2 6@2 | 3: 4@2 5@2 6@3 7@4 3@3 | "
        "4: 7@6 6@5 5@4 4@4\n");
  CHECK(makespan_of(table) == 36);
}

TEST_CASE("symmetric shift with two Q tiles a KV tile, 8 x 4 on 2 SMs") {
  const Table table = table_of("symmetric-shift", "causal", 8, 4, 1, 2);
  CHECK(lanes_of(table) ==
        "0: 2@0 3@1 4@1 5@1 6@1 7@1 0@0 1@0 | 3: 7@3 6@3\n"
        "1: 3@0 4@0 5@0 6@0 7@0 2@1 | 2: 7@2 6@2 5@2 4@2\n");
  CHECK(makespan_of(table) == 20);
}

TEST_CASE("spt, the baseline and descending, causal 4 x 4 on 4 SMs") {
  const Table spt = table_of("spt", "causal", 4, 4, 1, 4);
  CHECK(lanes_of(spt) == "3: 3@0\n2: 2@0 3@1\n1: 1@0 2@1 3@2\n0: 0@0 1@1 2@2 3@3\n");
  CHECK(makespan_of(spt) == 8);
  const Table baseline = table_of("lpt-ascending", "causal", 4, 4, 1, 4);
  CHECK(lanes_of(baseline) == "0: 0@0 1@0 2@0 3@0\n1: 1@1 2@1 3@1\n2: 2@2 3@2\n3: 3@3\n");
  CHECK(makespan_of(baseline) == 11);
  const Table descending = table_of("lpt-descending", "causal", 4, 4, 1, 4);
  CHECK(lanes_of(descending) == "0: 3@0 2@0 1@0 0@0\n1: 3@1 2@1 1@1\n2: 3@2 2@2\n3: 3@3\n");
  CHECK(makespan_of(descending) == 8);
}

TEST_CASE("descending mirrors the KV tiles on every other head") {
  CHECK(lanes_of(table_of("descending", "causal", 3, 3, 2, 3)) ==
        "h0 0: 2@0 1@0 0@0 | h1 2: 2@2\n"
        "h0 1: 2@1 1@1 | h1 1: 2@1 1@1\n"
        "h0 2: 2@2 | h1 0: 2@0 1@0 0@0\n");
}

TEST_CASE("the L2 swizzle interleaves the heads of a section") {
  const Table table = table_of("spt:swizzle=2", "causal", 2, 2, 3, 4);
  CHECK(lanes_of(table) ==
        "h0 1: 1@0\nh1 1: 1@0\nh0 0: 0@0 1@1\nh1 0: 0@0 1@1\nh2 1: 1@0\nh2 0: 0@0 1@1\n");
}

TEST_CASE("fa4-sparse visits partial tiles first and counts ranks over live tiles") {
  const Problem problem = make_problem(parse_mask("document:lengths=366+25+80+364+149+21+12+3+3+1"),
                                       {1024, 1024}, {128, 128}, 1, 8);
  CHECK(lanes_of(schedules::build(schedules::select("fa4-sparse"), problem)) ==
        "0: 2@0 0@0 1@0\n"
        "1: 2@1 0@1 1@1\n"
        "2: 0@2 1@2 2@2 3@0\n"
        "3: 2@3 3@1 4@0 5@0 6@0\n"
        "4: 3@2 6@1 4@1 5@1\n"
        "5: 3@3 6@2 4@2 5@2\n"
        "6: 3@4 4@3 5@3 6@3 7@0\n"
        "7: 6@4 7@1\n");
}

}  // namespace
}  // namespace stagger
