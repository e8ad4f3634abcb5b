// All that lint says of random tickets, lock values, tables and block lists, kept in
// tests/golden/tickets-*.txt: which rule, where, who waits for whom, the smallest part that hangs.
// That it is right is tested beside this; which of several right things is said is here.

#include "core/files.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/golden.hpp"
#include "tests/support/random.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/tickets.hpp"
#include "workbench/tickets/files.hpp"
#include "workbench/tickets/lint.hpp"
#include "workbench/tickets/notation.hpp"

#include <algorithm>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace stagger::tickets {
namespace {

std::string linted_words(const Linted& linted) {
  std::ostringstream text;
  text << kind_name(linted.kind) << " " << linted.verdict_name() << ", " << linted.residency
       << " of " << linted.residency_needed << " needed\n";
  for (std::size_t index = 0; index < linted.findings.size(); ++index) {
    const Finding& finding = linted.findings[index];
    const At& at = linted.places[index];
    text << "  " << finding.rule->id << " " << level_name(finding.level) << " " << finding.step
         << " " << finding.other << " at " << at.pointer << " " << at.place.line << ":"
         << at.place.column << " " << finding.message << "\n";
  }
  for (const std::string& line : linted.cycle)
    text << "  cycle " << line << "\n";
  for (const std::string& line : linted.starved)
    text << "  starved " << line << "\n";
  if (linted.smallest) text << notation(*linted.smallest);
  return text.str();
}

std::string linted_text(const std::string& text, const LintRequest& request = {}) {
  return test::said([&] { return linted_words(lint(text, "x", request)); }) + "\n";
}

TEST_CASE("what is found in tickets that are nearly right is as kept") {
  test::Random random(151);
  std::ostringstream text;
  for (int round = 0; round < 250; ++round) {
    const Tickets tickets = test::nearly_right_tickets(random);
    const std::int64_t limit = random.between(1, 4);
    text << round << " " << notation(tickets)
         << linted_text(round % 2 == 0 ? write_tickets_json(tickets) : write_tickets_csv(tickets),
                        {.limit = limit, .minimize = true});
  }
  CHECK(test::golden_difference("tickets-found.txt", text.str()) == "");
}

/// A row for each KV tile: numbers of KV tiles from one end or the other, or ranks, times a stride
/// and from some value on; of a window or of any tiles.
std::string lock_rows(test::Random& random) {
  const std::int64_t kv_tiles = random.between(1, 7);
  const std::int64_t q_tiles = random.between(1, 4);
  const std::int64_t way = random.between(0, 2);
  const std::int64_t stride = random.chance(4) ? random.between(2, 3) : 1;
  const std::int64_t from = random.chance(4) ? random.between(1, 3) : 0;
  const bool window = random.chance(2);
  std::vector<std::int64_t> ranks(at(q_tiles), 0);
  std::string rows;
  for (std::int64_t kv = 0; kv < kv_tiles; ++kv) {
    for (std::int64_t q = 0; q < q_tiles; ++q) {
      const bool live = window ? kv <= q + 1 && kv + 2 >= q : !random.chance(4);
      if (q > 0) rows += ",";
      if (!live) continue;
      const std::int64_t rank = ranks[at(q)]++;
      const std::int64_t number = way == 0 ? rank : way == 1 ? kv : kv_tiles - 1 - kv;
      rows += std::to_string(from + stride * (random.chance(40) ? number + 1 : number));
    }
    rows += "\n";
  }
  return rows;
}

TEST_CASE("what is found in arrays of lock values is as kept") {
  test::Random random(152);
  std::ostringstream text;
  for (int round = 0; round < 120; ++round) {
    const std::string rows = lock_rows(random);
    const auto residency = static_cast<std::int32_t>(random.between(1, 4));
    const bool few = random.chance(2);
    text << round << "\n" << rows;
    text << (few ? linted_text(rows, {.residency = residency}) : linted_text(rows));
  }
  CHECK(test::golden_difference("tickets-locks.txt", text.str()) == "");
}

TEST_CASE("what is found in tables with a slot or two wrong is as kept") {
  test::Random random(153);
  std::ostringstream text;
  for (int round = 0; round < 150; ++round) {
    Table table = test::drawn_table(random, 4, [&] { return !random.chance(4); });
    test::perhaps_shuffle_dkv_ranks(random, table);
    for (std::int64_t wrong = random.between(0, 2); wrong > 0 && !table.slots.empty(); --wrong)
      (random.chance(4) ? test::break_lane : test::break_slot)(random, table);
    text << round << " " << describe(table.problem) << ": "
         << linted_text(round % 2 == 0 ? write_table_json(table) : write_table_csv(table));
  }
  CHECK(test::golden_difference("tickets-tables.txt", text.str()) == "");
}

/// FlashAttention-4's lists of some heads, of random tiles or with an entry wrong.
std::string block_lists(test::Random& random) {
  const std::int64_t batches = random.between(1, 2);
  const std::int64_t heads = random.between(1, 4);
  const std::int64_t kv_blocks = random.between(1, 4);
  const std::int64_t q_blocks = random.between(1, 4);
  const bool spt = random.chance(2);
  const std::int64_t stale = random.chance(3) ? 6 : 1'000;
  std::string lists[6];
  const auto nested = [&](const char* open) {
    for (std::string& list : lists)
      list += open;
  };
  nested("[");
  for (std::int64_t batch = 0; batch < batches; ++batch) {
    nested(batch == 0 ? "[" : ",[");
    for (std::int64_t head = 0; head < heads; ++head) {
      nested(head == 0 ? "[" : ",[");
      std::vector<std::string> kinds(at(kv_blocks));
      for (std::string& row : kinds) {
        for (std::int64_t q = 0; q < q_blocks; ++q)
          row += ".fpf"[random.between(0, 3)];
        if (random.chance(6)) row.assign(at(q_blocks), '.');
      }
      for (std::int64_t kv = 0; kv < kv_blocks; ++kv) {
        for (const std::size_t full : {0U, 1U}) {
          std::string ids;
          std::string orders;
          std::int64_t count = 0;
          for (std::int64_t q = 0; q < q_blocks; ++q) {
            if (kinds[at(kv)][at(q)] != (full == 1 ? 'f' : 'p')) continue;
            std::int64_t order = 0;
            for (std::int64_t other = 0; other < kv_blocks; ++other)
              order += kinds[at(other)][at(q)] != '.' && (spt ? other > kv : other < kv) ? 1 : 0;
            if (random.chance(static_cast<int>(stale))) order += 1;
            ids += (count == 0 ? "" : ",") + std::to_string(q);
            orders += (count == 0 ? "" : ",") + std::to_string(order);
            ++count;
          }
          const char* const comma = kv == 0 ? "" : ",";
          lists[3 * full] += comma + std::to_string(count);
          lists[3 * full + 1] += std::string(comma) + "[" + ids + "]";
          lists[3 * full + 2] += std::string(comma) + "[" + orders + "]";
        }
      }
      nested("]");
    }
    nested("]");
  }
  nested("]");
  const std::int64_t groups = random.between(1, 3);
  const std::int64_t total = kv_blocks * groups - random.between(0, groups - 1);
  const std::int64_t subtile = random.between(1, 2);
  std::string text = R"({"schema": "stagger.fa4/1", "groups": )" + std::to_string(groups) +
                     R"(, "group_total": )" + std::to_string(total) + R"(, "q_subtile": )" +
                     std::to_string(subtile);
  if (random.chance(2)) text += R"(, "heads_kv": )" + std::to_string(random.between(1, heads));
  if (random.chance(3)) text += R"(, "q_tiles": )" + std::to_string(random.between(1, 7));
  const char* const names[] = {"mask_block_cnt", "mask_block_idx", "dq_write_order",
                               "full_block_cnt", "full_block_idx", "dq_write_order_full"};
  text += ",\n \"backward\": {\"spt\": " + std::string(spt ? "true" : "false");
  for (std::size_t list = 0; list < 6; ++list)
    text += std::string(",\n  \"") + names[list] + "\": " + lists[list];
  return text + "}}";
}

TEST_CASE("what is found in block lists of several heads is as kept") {
  test::Random random(154);
  std::ostringstream text;
  for (int round = 0; round < 120; ++round) {
    const std::string lists = block_lists(random);
    const std::string words = linted_text(lists, {.limit = 5});
    const std::string tickets =
        test::said([&] { return notation(read_document(lists, "x").tickets); });
    text << round << " " << test::text_digest(lists) << " " << test::text_digest(tickets) << "\n"
         << words;
    if (round < 8) text << lists << "\n" << tickets;
  }
  CHECK(test::golden_difference("tickets-lists.txt", text.str()) == "");
}

/// What is said of a text with a piece left out, or another in its place, at every place.
void break_pieces(std::ostringstream& text, const std::string& whole) {
  std::string last;
  for (std::size_t begin = 0; begin < whole.size();) {
    const std::size_t end = std::min(whole.find_first_of(",:[{=\n", begin + 1), whole.size());
    for (const char* other : {"", ",", "-1", "99", "99999999999", "null", "\"a\""}) {
      const std::string changed = whole.substr(0, begin) + other + whole.substr(end);
      const std::string line = linted_text(changed);
      if (line.find("parse error") != std::string::npos) continue;
      if (line != last) text << "  at " << begin << " '" << other << "': " << line;
      last = line;
    }
    begin = end;
  }
}

TEST_CASE("what is said of tickets and lists with a piece missing or wrong is as kept") {
  test::Random random(155);
  std::ostringstream text;
  for (int round = 0; round < 5; ++round) {
    const Tickets tickets = test::nearly_right_tickets(random);
    for (const std::string& whole : {write_tickets_json(tickets), write_tickets_csv(tickets),
                                     lock_rows(random), block_lists(random)}) {
      std::ostringstream broken;
      break_pieces(broken, whole);
      text << whole << "\n" << test::text_digest(broken.str()) << "\n";
      if (round == 0) text << broken.str();
    }
  }
  CHECK(test::golden_difference("tickets-broken.txt", text.str()) == "");
}

}  // namespace
}  // namespace stagger::tickets
