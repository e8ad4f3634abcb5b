// Published protocols: FlashAttention-4's write orders and their truncated tails, and how five
// kernels number the tiles of one window.

#include "core/error.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random.hpp"
#include "tests/support/refusal.hpp"
#include "workbench/tickets/document.hpp"
#include "workbench/tickets/lint.hpp"
#include "workbench/tickets/notation.hpp"
#include "workbench/tickets/play.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace stagger::tickets {
namespace {

using Rows = std::vector<std::string>;  ///< one string per KV tile, as of a `tiles` mask

// 16 tokens, tiles of 2 x 2, a query sees itself and the five before it.
const Rows kW8 = {"pffp....", ".pffp...", "..pffp..", "...pffp.",
                  "....pffp", ".....pff", "......pf", ".......p"};

std::string list(const std::vector<std::int64_t>& items) {
  std::string text = "[";
  for (const std::int64_t item : items) {
    if (text.size() > 1) text += ",";
    text += std::to_string(item);
  }
  return text + "]";
}

/// Rank of a live tile among those of its Q tile, as compute_dq_write_order counts.
std::int64_t write_order(const Rows& rows, std::size_t kv, std::size_t q, bool spt) {
  std::int64_t before = 0;
  std::int64_t all = 0;
  for (std::size_t other = 0; other < rows.size(); ++other) {
    const bool live = rows[other][q] != '.';
    before += live && other < kv ? 1 : 0;
    all += live ? 1 : 0;
  }
  return spt ? all - 1 - before : before;
}

/// FA4's backward tensors of one head, ids in ascending order; `order_of` are the rows that the
/// order is made from.
std::string fa4_json(const Rows& rows, bool spt, const std::string& more, const Rows& order_of) {
  std::string tensors;
  for (const char kind : {'p', 'f'}) {
    std::string counts;
    std::string ids;
    std::string orders;
    for (std::size_t kv = 0; kv < rows.size(); ++kv) {
      std::vector<std::int64_t> row;
      std::vector<std::int64_t> order;
      for (std::size_t q = 0; q < rows[kv].size(); ++q) {
        if (rows[kv][q] != kind) continue;
        row.push_back(static_cast<std::int64_t>(q));
        order.push_back(write_order(order_of, kv, q, spt));
      }
      const char* const comma = kv == 0 ? "" : ",";
      counts += comma;
      counts += std::to_string(row.size());
      ids += comma;
      ids += list(row);
      orders += comma;
      orders += list(order);
    }
    const std::string name = kind == 'p' ? "mask" : "full";
    tensors += "  \"" + name + "_block_cnt\": [[[" + counts + "]]],\n  \"" + name +
               "_block_idx\": [[[" + ids + "]]],\n  \"dq_write_order" +
               (kind == 'p' ? "" : "_full") + "\": [[[" + orders + "]]],\n";
  }
  return "{\"schema\": \"stagger.fa4/1\"" + more + ",\n \"backward\": {\n" + tensors +
         "  \"spt\": " + (spt ? "true" : "false") + "}}";
}

std::string fa4_json(const Rows& rows, bool spt, const std::string& more = "") {
  return fa4_json(rows, spt, more, rows);
}

/// Whether tickets hang with 1, 3 and 8 programs resident: `ok ok hang`.
std::string at_1_3_8(Tickets tickets) {
  std::string words;
  for (const std::int32_t residency : {1, 3, 8}) {
    tickets.residency = residency;
    words += words.empty() ? "" : " ";
    words += play(tickets).hangs ? "hang" : "ok";
  }
  return words;
}

/// The programs in the other launch order.
Tickets backwards(const Tickets& tickets) {
  Tickets turned{.name = tickets.name, .initial = tickets.initial};
  for (std::int32_t program = tickets.programs(); program > 0; --program) {
    const auto steps = tickets.program(Program{program - 1});
    turned.steps.insert(turned.steps.end(), steps.begin(), steps.end());
    turned.end_program();
  }
  return turned;
}

std::string line_of(const Tickets& tickets, const std::string& begin) {
  const std::string text = notation(tickets);
  const std::size_t at = text.find(begin);
  REQUIRE(at != std::string::npos);
  return text.substr(at, text.find('\n', at) - at);
}

TEST_CASE("FlashAttention-4's write order of a window, both launch orders") {
  const Document forth = read_document(fa4_json(kW8, false), "w8.json");
  CHECK(forth.kind == Kind::fa4);
  CHECK(line_of(forth.tickets, "P3:") == "P3: q3@3 q6@0 q4@2 q5@1");
  CHECK(at_1_3_8(forth.tickets) == "ok ok ok");
  CHECK(at_1_3_8(backwards(forth.tickets)) == "hang hang ok");
  const Document back = read_document(fa4_json(kW8, true), "w8.json");
  CHECK(line_of(back.tickets, "P3:") == "P3: q3@0 q6@3 q4@1 q5@2");
  CHECK(notation(back.tickets).starts_with("P7: "));
  CHECK(at_1_3_8(back.tickets) == "ok ok ok");
  CHECK(at_1_3_8(backwards(back.tickets)) == "hang hang ok");

  CHECK(lint(fa4_json(kW8, true), "w8.json", {}).findings.empty());
  std::string wrong = fa4_json(kW8, true);
  wrong.replace(wrong.find("\"spt\": true"), 11, "\"spt\": false");
  const Linted linted = lint(wrong, "w8.json", {});
  CHECK(linted.verdict == LintVerdict::invalid);
  REQUIRE(linted.findings.size() == 1);
  CHECK(linted.findings[0].rule->id == std::string("STG008"));
  CHECK(lint(wrong, "w8.json", {.residency = 7}).verdict == LintVerdict::deadlock);
  CHECK(lint(wrong, "w8.json", {.dispatch = Dispatch::static_}).verdict == LintVerdict::ok);
}

TEST_CASE("how other kernels number a window's tiles") {
  Tickets with_bumps;
  Tickets without;
  Tickets every_tile;
  Tickets ranks;
  for (Tickets* tickets : {&with_bumps, &without, &every_tile, &ranks})
    tickets->initial.assign(8, 0);
  for (std::int32_t kv = 0; kv < 8; ++kv) {
    for (std::int32_t q = 0; q < 8; ++q) {
      const bool live = kW8[at(kv)][at(q)] != '.';
      Step step{.semaphore = Semaphore{q}, .wait = kv, .task = {Head{0}, KvTile{kv}, QTile{q}}};
      step.chain = chain_of(step.task);
      if (live) {
        with_bumps.steps.push_back(step);
        without.steps.push_back(step);
        Step ranked = step;
        ranked.wait = static_cast<std::int32_t>(write_order(kW8, at(kv), at(q), false));
        ranks.steps.push_back(ranked);
      } else if (q > kv) {
        Step bump = step;
        bump.wait = kNoWait;
        bump.reduces = false;
        with_bumps.steps.push_back(bump);
      }
      step.reduces = live;
      every_tile.steps.push_back(step);
    }
    for (Tickets* tickets : {&with_bumps, &without, &every_tile, &ranks})
      tickets->end_program();
  }
  CHECK(at_1_3_8(with_bumps) == "ok ok ok");     // FlashAttention-3, local
  CHECK(at_1_3_8(without) == "hang hang hang");  // likewise, before
  CHECK(at_1_3_8(every_tile) == "ok ok ok");     // FlashMask
  CHECK(at_1_3_8(ranks) == "ok ok ok");          // FBGEMM
  const std::vector<std::string> stuck = describe(without, play(without).starved);
  REQUIRE_FALSE(stuck.empty());
  CHECK(stuck.front().find("program 1 (head 0, kv 1) is at q4@1") == 0);

  Findings sound(10);
  for (const Tickets* tickets : {&with_bumps, &every_tile, &ranks})
    apply_rules(Facts(*tickets, Origin::given, nullptr, 0), sound);
  CHECK(sound.take().empty());
  Findings broken(10);
  apply_rules(Facts(without, Origin::given, nullptr, 0), broken);
  CHECK(broken.take().front().rule->id == std::string("STG002"));
}

TEST_CASE("absolute lock values hang where the first KV tile is absent") {
  const Linted absent = lint(".,\n1,\n2,\n3,\n4,\n", "x.csv", {});
  CHECK(absent.verdict == LintVerdict::deadlock);
  REQUIRE(absent.findings.size() == 1);
  CHECK(absent.findings[0].rule->id == std::string("STG001"));
  CHECK(lint(".,\n0,\n1,\n2,\n3,\n", "x.csv", {}).verdict == LintVerdict::ok);
}

// FA's test of coarse KV blocks under a causal mask, with spt: Q blocks of 256 tokens, tiles of
// 128.
struct Tail {
  std::int32_t tokens;
  std::int32_t kv_block;
  std::int32_t groups;  ///< of a KV block
  std::int32_t total;
  std::int32_t own;  ///< groups of the last block
  std::set<std::int32_t> last_locks = {};
};

TEST_CASE("a truncated last KV block is bridged, and hangs where it is not") {
  const std::vector<Tail> tails = {{1152, 384, 3, 9, 3},
                                   {1024, 512, 2, 4, 2},
                                   {1023, 384, 3, 8, 2, {0, 1, 3, 4, 5, 6, 7, 8}},
                                   {641, 512, 2, 3, 1, {0, 2, 3}},
                                   {1793, 768, 3, 8, 2},
                                   {1089, 512, 2, 5, 1, {0, 2, 3, 4, 5}}};
  for (const Tail& tail : tails) {
    CAPTURE(tail.tokens, tail.kv_block);
    Rows rows;
    for (std::int32_t kv = 0; kv < tail.tokens; kv += tail.kv_block) {
      rows.emplace_back();
      for (std::int32_t q = 0; q < tail.tokens; q += 256) {
        const bool live = kv <= std::min(q + 256, tail.tokens) - 1;
        const bool full = std::min(kv + tail.kv_block, tail.tokens) - 1 <= q;
        rows.back() += full ? 'f' : live ? 'p' : '.';
      }
    }
    const std::int32_t q_tiles = (tail.tokens + 127) / 128;
    const std::string json =
        fa4_json(rows, true,
                 std::string(", \"q_subtile\": 2, \"groups\": ") + std::to_string(tail.groups) +
                     ", \"group_total\": " + std::to_string(tail.total) +
                     ", \"q_tiles\": " + std::to_string(q_tiles));
    CHECK(lint(json, "x.json", {}).findings.empty());
    Tickets tickets = read_document(json, "x.json").tickets;
    CHECK(tickets.programs() == tail.total);
    std::set<std::int32_t> locks;
    std::int32_t bridge = 1;
    for (const Step& step : tickets.steps) {
      if (step.task.q.value == q_tiles - 1) locks.insert(step.wait);
      bridge = std::max(bridge, step.add);
    }
    if (!tail.last_locks.empty()) CHECK(locks == tail.last_locks);
    CHECK(bridge == 1 + tail.groups - tail.own);
    tickets.residency = 1;
    CHECK_FALSE(play(tickets).hangs);
    for (Step& step : tickets.steps)
      step.add = 1;
    CHECK(play(tickets).hangs == (tail.own < tail.groups));
  }
}

TEST_CASE("two values of a write order that are exchanged are an error, however few tiles it has") {
  // 2 KV x 2 Q tiles, all full: q 1 is taken in the other order than q 0.
  const std::string lists =
      R"({"schema": "stagger.fa4/1", "backward": {"mask_block_cnt": [[[2, 2]]],
          "mask_block_idx": [[[[0, 1], [0, 1]]]], "spt": false,
          "dq_write_order": [[[[0, 1], [1, 0]]]]}})";
  const Linted linted = lint(lists, "x.json", {});
  REQUIRE(linted.findings.size() == 1);
  CHECK(linted.verdict == LintVerdict::invalid);
  CHECK(linted.findings[0].rule->id == std::string("STG008"));
  CHECK(linted.places[0].pointer == "/backward/dq_write_order/0/0/0/1");
  // Launched cooperatively it is refused where it does not fit.
  CHECK(lint(lists, "x.json", {.dispatch = Dispatch::static_}).findings.empty());
  CHECK(lint(lists, "x.json", {.residency = 1}).verdict == LintVerdict::deadlock);
}

TEST_CASE("sound write orders have no finding, and those of other masks do") {
  test::Random random(test::seed(5));
  std::int64_t stale = 0;
  for (int round = 0; round < 300; ++round) {
    const auto random_rows = [&](std::int64_t kv_tiles, std::int64_t q_tiles) {
      Rows rows;
      for (std::int64_t kv = 0; kv < kv_tiles; ++kv) {
        rows.emplace_back();
        for (std::int64_t q = 0; q < q_tiles; ++q)
          rows.back() += "f.p"[random.between(0, 2)];
      }
      return rows;
    };
    const Rows rows = random_rows(random.between(1, 6), random.between(1, 6));
    const bool spt = random.chance(2);
    CAPTURE(round);
    CHECK(lint(fa4_json(rows, spt), "x.json", {.residency = 1}).findings.empty());
    // The order of a mask with one tile more: stale, unless that tile is the last of its order.
    Rows more = rows;
    const std::size_t kv = at(random.between(0, std::ssize(rows) - 1));
    const std::size_t q = at(random.between(0, std::ssize(rows[0]) - 1));
    more[kv][q] = 'f';
    std::int64_t behind = 0;
    for (std::size_t other = 0; other < rows.size(); ++other)
      behind += rows[other][q] != '.' && (spt ? other < kv : other > kv) ? 1 : 0;
    const bool wrong = rows[kv][q] == '.' && behind > 0;
    const Linted linted = lint(fa4_json(rows, spt, "", more), "x.json", {});
    CHECK((linted.verdict == LintVerdict::deadlock) == wrong);
    if (!wrong) continue;
    ++stale;
    REQUIRE(linted.findings.size() == 1);
    CHECK(linted.findings[0].rule->id == std::string("STG015"));
    CHECK(linted.places[0].place.line > 0);
    CHECK(linted.places[0].pointer.starts_with("/backward/dq_write_order"));
  }
  CHECK(stale > 15);
}

TEST_CASE("forward and backward lists are the same tiles, class by class") {
  const std::string forward =
      ", \"forward\": {\"mask_block_cnt\": [[[1,1]]], \"mask_block_idx\": [[[[0],[1]]]], "
      "\"full_block_cnt\": [[[0,1]]], \"full_block_idx\": [[[[],[0]]]]}";
  CHECK(lint(fa4_json({"pf", ".p"}, false, forward), "x.json", {}).findings.empty());
  const Linted more = lint(fa4_json({"pf", "fp"}, false, forward), "x.json", {});
  REQUIRE(more.findings.size() == 1);
  CHECK(more.findings[0].rule->id == std::string("STG015"));
  CHECK(more.findings[0].message ==
        "head 0, kv 1, q 0 is in the backward lists, and not in the forward pass's full list");
  const Linted fewer = lint(fa4_json({"p.", ".p"}, false, forward), "x.json", {});
  REQUIRE(fewer.findings.size() == 1);
  CHECK(fewer.findings[0].rule->id == std::string("STG016"));
  CHECK(fewer.places[0].pointer == "/backward/full_block_idx/0/0/0");
  CHECK(more.places[0].pointer == "/backward/full_block_idx/0/0/1");
  CHECK(lint(fa4_json({"pp", ".p"}, false, forward), "x.json", {}).findings.size() == 2);
}

/// The forward lists of those rows: their KV tiles by Q tile.
std::string forward_json(const Rows& rows) {
  std::string text;
  for (const char kind : {'p', 'f'}) {
    std::string counts;
    std::string ids;
    for (std::size_t q = 0; q < rows.front().size(); ++q) {
      std::vector<std::int64_t> row;
      for (std::size_t kv = 0; kv < rows.size(); ++kv) {
        if (rows[kv][q] == kind) row.push_back(static_cast<std::int64_t>(kv));
      }
      counts += (q == 0 ? "" : ",") + std::to_string(row.size());
      ids += (q == 0 ? "" : ",") + list(row);
    }
    const std::string name = kind == 'p' ? "mask" : "full";
    text += std::string(text.empty() ? "" : ", ") + "\"" + name + "_block_cnt\": [[[" + counts +
            "]]], \"" + name + "_block_idx\": [[[" + ids + "]]]";
  }
  return ", \"forward\": {" + text + "}";
}

/// What lint says of the lists of two masks, a line for each tile, in no order.
std::multiset<std::string> said_of(const Rows& forward, const Rows& backward) {
  std::multiset<std::string> said;
  const LintRequest request{.residency = 1, .limit = 1'000};
  for (const Finding& finding :
       lint(fa4_json(backward, false, forward_json(forward)), "x.json", request).findings)
    said.insert(std::string(finding.rule->id) + " " + finding.message);
  return said;
}

TEST_CASE("of random forward and backward lists each tile that only one has is said, by class") {
  test::Random random(test::seed(7));
  std::size_t all = 0;
  for (int round = 0; round < 150; ++round) {
    Rows forward(at(random.between(1, 4)));
    Rows backward(forward.size());
    const std::int64_t q_tiles = random.between(1, 5);
    std::multiset<std::string> wanted;
    for (std::size_t kv = 0; kv < forward.size(); ++kv) {
      for (std::int64_t q = 0; q < q_tiles; ++q) {
        const char ahead = "f.p"[random.between(0, 2)];
        const char back = random.chance(3) ? "f.p"[random.between(0, 2)] : ahead;
        forward[kv] += ahead;
        backward[kv] += back;
        if (ahead == back) continue;
        const std::string tile =
            "head 0, kv " + std::to_string(kv) + ", q " + std::to_string(q) + " is in the ";
        const auto list_of = [](char kind) {
          return std::string(kind == 'f' ? "full" : "partial") + " list";
        };
        if (ahead != '.') {
          wanted.insert("STG016 " + tile + "forward lists, and not in the backward pass's " +
                        list_of(ahead));
        }
        if (back != '.') {
          wanted.insert("STG015 " + tile + "backward lists, and not in the forward pass's " +
                        list_of(back));
        }
      }
    }
    CAPTURE(round, forward, backward);
    REQUIRE(said_of(forward, backward) == wanted);
    all += wanted.size();
  }
  CHECK(all > 100);
}

TEST_CASE("of tiles that forward and backward lists do not share as many are said as asked for") {
  const auto said = [](std::size_t only_forward, std::size_t only_backward, std::int64_t limit) {
    Rows forward = {std::string(60, '.'), std::string(60, '.'), std::string(60, 'f')};
    Rows backward = forward;
    for (std::size_t tile = 0; tile < only_forward; ++tile)
      forward[tile / 60][tile % 60] = 'p';
    for (std::size_t tile = 0; tile < only_backward; ++tile)
      backward[tile / 60][tile % 60] = 'f';
    const std::string text = fa4_json(backward, false, forward_json(forward));
    return lint(text, "x.json", {.residency = 1, .limit = limit}).findings;
  };
  CHECK(said(120, 0, 120).size() == 120);
  CHECK(said(0, 120, 120).size() == 120);
  CHECK(said(60, 60, 60).size() == 120);
  CHECK(said(120, 0, 3).size() == 4);
  CHECK(said(120, 0, 3).back().message == "and 117 more of this rule");
  CHECK(said(0, 120, 119).back().message == "and 1 more of this rule");
}

TEST_CASE("block lists that cannot be lists are refused with their place") {
  const auto refusal = [](const std::string& text) {
    return test::message_of([&] { static_cast<void>(read_document(text, "x.json")); },
                            ErrorKind::invalid_input);
  };
  const auto with = [](const std::string& what, const std::string& by) {
    return test::replaced(fa4_json({"pf", ".p"}, false), what, by);
  };
  CHECK(refusal(with("\"mask_block_cnt\": [[[1,1]]]", "\"mask_block_cnt\": [[[2,1]]]")) ==
        "x.json:4:24: /backward/mask_block_idx/0/0/0: has 1 items, and mask_block_cnt says 2");
  const auto without_spt = [&](const Rows& rows, bool spt) {
    const std::string key = std::string(",\n  \"spt\": ") + (spt ? "true" : "false");
    const std::string said = refusal(test::replaced(fa4_json(rows, spt), key, ""));
    CHECK(
        said.starts_with("x.json:2:14: /backward: there is no spt (a BlockMask's "
                         "dq_kv_order_spt): FlashAttention-4 refuses"));
    return said.substr(said.find("the ranks"));
  };
  CHECK(without_spt({"pf", ".p"}, false) == "the ranks are those of spt = false");
  CHECK(without_spt({"pf", ".p"}, true) == "the ranks are those of spt = true");
  CHECK(without_spt({"p.", ".p"}, true) == "the ranks fit either");
  CHECK(refusal(with(",\n  \"dq_write_order_full\": [[[[0],[]]]]", ""))
            .find("there is no dq_write_order_full: FlashAttention-4 refuses") !=
        std::string::npos);
  CHECK(refusal(with("\"dq_write_order_full\"", "\"dq_order_full\"")).find("unknown key") !=
        std::string::npos);
  CHECK(refusal(with("[[[1,1]]]", "[[[1],[1]]]")).find("is of another shape") != std::string::npos);
  // The forward lists: batches and heads are one, or those of the others.
  const auto ahead = [&](const std::string& lists) {
    const std::string text =
        refusal(fa4_json({"pf", ".p"}, false, ", \"forward\": {" + lists + "}"));
    return text.substr(std::min(text.find("/forward"), text.size()));
  };
  const auto pair = [](const char* name, const char* counts, const char* ids) {
    return std::string("\"") + name + "_block_cnt\": " + counts + ", \"" + name +
           "_block_idx\": " + ids;
  };
  const std::string other =
      "/forward/full_block_cnt: has other batches or heads than the lists before it";
  const std::string heads = pair("mask", "[[[0],[0]]]", "[[[[]],[[]]]]") + ", ";
  CHECK(ahead(heads + pair("full", "[[[0],[0],[0]]]", "[[[[]],[[]],[[]]]]")) == other);
  const std::string batches = pair("mask", "[[[0]],[[0]]]", "[[[[]]],[[[]]]]") + ", ";
  CHECK(ahead(batches + pair("full", "[[[0]],[[0]],[[0]]]", "[[[[]]],[[[]]],[[[]]]]")) == other);
  const std::string one = pair("mask", "[[[0]]]", "[[[[]]]]") + ", ";
  CHECK(ahead(one + pair("full", "[[[0,0]]]", "[[[[],[]]]]")) ==
        "/forward/full_block_cnt: is of another shape than mask_block_cnt");
  CHECK(ahead(pair("mask", "[[[0,0]]]", "[[[[]]]]")) ==
        "/forward/mask_block_idx: is of another shape than mask_block_cnt");
  CHECK(ahead(pair("mask", "[[[0]]]", "[[[[],[]]]]")) ==
        "/forward/mask_block_idx: is of another shape than mask_block_cnt");
}

TEST_CASE("a group's total is refused with all that it may be") {
  const auto said = [](int total) {
    return test::message_of(
        [&] {
          static_cast<void>(
              read_document(fa4_json({"pf", ".p"}, false,
                                     ", \"groups\": 3, \"group_total\": " + std::to_string(total)),
                            "x.json"));
        },
        ErrorKind::invalid_input);
  };
  for (const int total : {1, 3, 7, 9}) {
    CHECK(said(total).ends_with(
        "/group_total: group_total must be from 4 to 6: only the last KV block can be cut"));
  }
}

}  // namespace
}  // namespace stagger::tickets
