// FlashAttention-4's block lists as files: groups of heads, and as many tasks, findings and
// semaphores as there may be.

#include "core/files.hpp"
#include "core/limits.hpp"
#include "schedules/schedule.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/refusal.hpp"
#include "workbench/tickets/document.hpp"
#include "workbench/tickets/lint.hpp"

#include <string>
#include <vector>

namespace stagger::tickets {
namespace {

TEST_CASE("a KV block that is empty for some heads of a group is said, group by group") {
  // Two batches of four heads of three KV blocks: which of them have a tile.
  const auto said = [](const std::vector<std::string>& heads, std::int64_t heads_kv) {
    std::string counts;
    std::string ids;
    for (std::size_t head = 0; head < heads.size(); ++head) {
      const char* const open = head == 0 ? "[[" : head == 4 ? "]],[[" : "],[";
      counts += head == 4 ? "]],[[" : head == 0 ? "[[" : "],[";
      ids += open;
      for (std::size_t kv = 0; kv < heads[head].size(); ++kv) {
        const bool live = heads[head][kv] == 'f';
        counts += std::string(kv == 0 ? "" : ",") + (live ? "1" : "0");
        ids += std::string(kv == 0 ? "" : ",") + (live ? "[" + std::to_string(kv) + "]" : "[]");
      }
    }
    std::string orders = ids;
    for (const char* block : {"[1]", "[2]"}) {
      for (std::size_t at = 0; (at = orders.find(block, at)) != std::string::npos;)
        orders.replace(at, 3, "[0]");
    }
    const std::string text = R"({"schema": "stagger.fa4/1", "heads_kv": )" +
                             std::to_string(heads_kv) + R"(, "backward": {"mask_block_cnt": [)" +
                             counts + R"(]]], "mask_block_idx": [)" + ids +
                             R"(]]], "dq_write_order": [)" + orders + R"(]]], "spt": false}})";
    std::string words;
    for (const Finding& finding : lint(text, "x.json", {.residency = 1, .limit = 100}).findings) {
      CHECK(finding.level == Level::warning);
      words += std::string(finding.rule->id) + " " +
               finding.message.substr(0, finding.message.find(" on that share")) + "\n";
    }
    return words;
  };
  const std::vector<std::string> heads = {"fff", "ff.", "f.f", "f.f", "...", "f..", "..f", "..f"};
  CHECK(said(heads, 4) == "");
  CHECK(said(heads, 2) ==
        "STG012 kv 2 is empty for 1 of the 2 heads from 0\n"
        "STG012 kv 0 is empty for 1 of the 2 heads from 4\n");
  CHECK(said(heads, 1) ==
        "STG012 kv 1 is empty for 2 of the 4 heads from 0\n"
        "STG012 kv 2 is empty for 1 of the 4 heads from 0\n"
        "STG012 kv 0 is empty for 3 of the 4 heads from 4\n"
        "STG012 kv 2 is empty for 2 of the 4 heads from 4\n");
}

TEST_CASE("an order whose launch goes the wrong way is no stale one, cut last block or not") {
  // Two KV blocks of two groups; the order begins with the last block, which may lack a group.
  const auto said = [](const char* ranks, bool spt, int total) {
    const std::string text =
        R"({"schema": "stagger.fa4/1", "groups": 2, "group_total": )" + std::to_string(total) +
        R"(, "backward": {"mask_block_cnt": [[[1, 1]]], "mask_block_idx": [[[[0], [0]]]], )"
        R"("dq_write_order": [[[)" +
        ranks + R"(]]], "spt": )" + (spt ? "true" : "false") + "}}";
    std::string words;
    for (const Finding& finding : lint(text, "x.json", {.residency = 1}).findings)
      words += finding.rule->id + (" " + finding.message.substr(0, 60)) + "\n";
    return words;
  };
  CHECK(said("[1], [0]", true, 3) == "");
  CHECK(said("[0], [1]", false, 3) == "");
  CHECK(said("[1], [0]", false, 4).starts_with("STG008 head 0, q 0 (semaphore 0): program 0 "));
  CHECK(said("[1], [0]", false, 3) ==
        "STG008 head 0, q 0 (semaphore 0): lock values {0, 2, 3}; kv 0 waits\n");
  CHECK(said("[2], [0]", false, 3).starts_with("STG015 "));
  CHECK(said("[1], [1]", true, 3).starts_with("STG015 "));
}

TEST_CASE("heads of one Q block each are held against their own") {
  const std::string lists =
      R"("mask_block_cnt": [[[1],[0]]], "mask_block_idx": [[[[0]],[[0]]]],
         "full_block_cnt": [[[0],[1]]], "full_block_idx": [[[[0]],[[0]]]])";
  const std::string text = R"({"schema": "stagger.fa4/1", "forward": {)" + lists +
                           R"(}, "backward": {"spt": false, "dq_write_order": [[[[0]],[[0]]]],
                             "dq_write_order_full": [[[[0]],[[0]]]], )" +
                           lists + "}}";
  CHECK(read_document(text, "x.json").found.take().empty());
}

TEST_CASE("counts of block lists are as many tasks as there may be, and not one more") {
  const auto said = [](std::int64_t more) {
    // 64 KV blocks of 2^20 Q blocks each make 2^26 tasks.
    std::string counts;
    std::string ids;
    for (int kv = 0; kv < 65; ++kv) {
      counts += (kv == 0 ? "" : ",") + std::to_string(kv < 64 ? kMaxTiles : more);
      ids += kv == 0 ? "[]" : ",[]";
    }
    const std::string lists = R"("mask_block_cnt": [[[)" + counts +
                              R"(]]], "mask_block_idx": [[[)" + ids +
                              R"(]]], "dq_write_order": [[[)" + ids + "]]]";
    return test::said([&] {
      static_cast<void>(read_document(
          R"({"schema": "stagger.fa4/1", "backward": {"spt": false, )" + lists + "}}", "x.json"));
      return std::string("read");
    });
  };
  REQUIRE(64 * kMaxTiles == kMaxTasks);
  CHECK(said(0).find("has 0 items, and mask_block_cnt says 1048576") != std::string::npos);
  CHECK(said(1).find("more than 67108864 tasks") != std::string::npos);
}

TEST_CASE(
    "of the KV blocks that some heads of a group leave early as many are said as are asked for") {
  const auto said = [](int kv_blocks, std::int64_t limit) {
    std::string none;
    std::string one;
    std::string ids;
    std::string orders;
    for (int kv = 0; kv < kv_blocks; ++kv) {
      const char* const comma = kv == 0 ? "" : ",";
      none += std::string(comma) + "0";
      one += std::string(comma) + "1";
      ids += std::string(comma) + "[0]";
      orders += std::string(comma) + "[" + std::to_string(kv) + "]";
    }
    return read_document(R"({"schema": "stagger.fa4/1", "heads_kv": 1, "backward": {"spt": false,
                             "mask_block_cnt": [[[)" +
                             none + "],[" + one + R"(]]], "mask_block_idx": [[[)" + ids + "],[" +
                             ids + R"(]]], "dq_write_order": [[[)" + orders + "],[" + orders +
                             "]]]}}",
                         "x.json", limit)
        .found.take();
  };
  CHECK(said(200, 200).size() == 200);
  CHECK(said(200, 3).size() == 4);
  CHECK(said(200, 3).back().message == "and 197 more of this rule");
}

TEST_CASE("lists of one head are for as many as there are, and for every KV head") {
  const std::string text = R"({"schema": "stagger.fa4/1", "heads_kv": 2, "backward": {"spt": false,
                               "mask_block_cnt": [[[1,1]]], "mask_block_idx": [[[[0],[1]]]],
                               "dq_write_order": [[[[0],[0]]]]}})";
  CHECK(lint(text, "x.json", {.residency = 1}).verdict == LintVerdict::ok);
}

TEST_CASE("lists of blocks of another size are not held against each other") {
  // Two KV blocks of two Q blocks; the forward pass has one block of each.
  const auto found = [](const std::string& back, const std::string& ahead) {
    const std::string text =
        R"({"schema": "stagger.fa4/1", "backward": {"spt": false, "mask_block_cnt": [[[2,1]]],
            "mask_block_idx": [[[[0,1],[1]]]], "dq_write_order": [[[[0,0],[1]]]])" +
        back + R"(}, "forward": {"mask_block_cnt": [[[1]]], "mask_block_idx": [[[[0]]]])" + ahead +
        "}}";
    return test::said([&] {
      return std::to_string(read_document(text, "x.json").found.take().size()) + " found";
    });
  };
  CHECK(found("", "") == "2 found");
  CHECK(found(R"(, "block_size": [128, 128])", R"(, "block_size": [256, 256])") == "0 found");
  CHECK(found(R"(, "block_size": [128, 128])", R"(, "block_size": [128, 256])") == "0 found");
  CHECK(found(R"(, "block_size": [128, 128])", R"(, "block_size": [128, 128])") == "2 found");
  CHECK(found(R"(, "block_size": null)", R"(, "block_size": [256, 256])") == "0 found");
  CHECK(found(R"(, "block_size": [128])", "").find("/backward/block_size: has 1 items") !=
        std::string::npos);
}

TEST_CASE("lists make as many semaphores as there may be, and not one more") {
  const auto said = [](int heads) {
    std::string counts;
    std::string rows;
    for (int head = 0; head < heads; ++head) {
      counts += head == 0 ? "[1]" : ",[1]";
      rows += head == 0 ? "[[0]]" : ",[[0]]";
    }
    return test::said([&] {
      const Document document = read_document(
          R"({"schema": "stagger.fa4/1", "q_tiles": 1048576, "backward": {"spt": false,
              "mask_block_cnt": [[)" +
              counts + R"(]], "mask_block_idx": [[)" + rows + R"(]], "dq_write_order": [[)" + rows +
              "]]}}",
          "x.json");
      return std::to_string(document.tickets.semaphores());
    });
  };
  CHECK(said(16) == "16777216");
  CHECK(said(17) == "refused 3: more than 16777216 semaphores or programs");
}

TEST_CASE("a tile that forward lists lack is placed in its batch's and head's own row") {
  // Two batches of two heads, of two KV blocks with Q block 0 each; one head's forward list has
  // only KV block 1, or all four share one row of lists.
  for (int wrong = 0; wrong < 4; ++wrong) {
    const auto each = [&](const std::string& right, const std::string& other) {
      std::string text;
      for (int head = 0; head < 4; ++head)
        text += std::string(head == 0   ? "[["
                            : head == 2 ? "],["
                                        : ",") +
                (head == wrong ? other : right);
      return text + "]]";
    };
    const std::string text =
        R"({"schema": "stagger.fa4/1", "heads_kv": 2, "backward": {"spt": false,
            "mask_block_cnt": )" +
        each("[1,1]", "[1,1]") + R"(, "mask_block_idx": )" + each("[[0],[0]]", "[[0],[0]]") +
        R"(, "dq_write_order": )" + each("[[0],[1]]", "[[0],[1]]") +
        R"(}, "forward": {"mask_block_cnt": )" + each("[2]", "[1]") + R"(, "mask_block_idx": )" +
        each("[[0,1]]", "[[1,0]]") + "}}";
    const std::vector<Finding> found = read_document(text, "x.json").found.take();
    CAPTURE(text);
    REQUIRE(found.size() == 1);
    CHECK(found.front().pointer == "/backward/mask_block_idx/" + std::to_string(wrong / 2) + "/" +
                                       std::to_string(wrong % 2) + "/0");
  }
}

TEST_CASE("groups make as many KV tiles as there may be, and not one more") {
  const auto said = [](std::int64_t groups) {
    return test::said([&] {
      const Document document =
          read_document(R"({"schema": "stagger.fa4/1", "groups": )" + std::to_string(groups) +
                            R"(, "backward": {"spt": false, "mask_block_cnt": [[[1,1]]],
                  "mask_block_idx": [[[[0],[0]]]], "dq_write_order": [[[[0],[1]]]]}})",
                        "x.json");
      return std::string("read");
    });
  };
  CHECK(said(kMaxTiles / 2) == "read");
  CHECK(said(kMaxTiles / 2 + 1).find("/groups: makes more than 1048576 KV tiles") !=
        std::string::npos);
}

TEST_CASE("of tasks that do not exist all are counted, and as many listed as are asked for") {
  Table table = schedules::build(schedules::select("ascending"),
                                 make_problem(make_mask("full"), {12, 12}, {}, 1, 12));
  for (Slot& slot : table.slots)
    slot.task.q.value += 12;
  const auto found = [&](std::int64_t limit) {
    return read_document(write_table_json(table), "x.json", limit).found.take();
  };
  CHECK(found(144).size() == 144);
  CHECK(found(143).back().message == "and 1 more of this rule");
}

TEST_CASE("more lanes than SMs are said of a table that goes by lanes alone") {
  for (const Dispatch dispatch : {Dispatch::static_, Dispatch::in_order}) {
    Table table = schedules::build(schedules::select("ascending"),
                                   make_problem(make_mask("full"), {3, 3}, {}, 1, 3));
    table.dispatch = dispatch;
    table.problem.sms = 2;
    const std::vector<Finding> found =
        read_document(write_table_json(table), "x.json").found.take();
    if (dispatch == Dispatch::in_order) {
      CHECK(found.empty());
    } else {
      REQUIRE(found.size() == 1);
      CHECK(found.front().pointer == "/lanes/2");
      CHECK(found.front().message.starts_with("3 lanes for 2 SMs"));
    }
  }
}

}  // namespace
}  // namespace stagger::tickets
