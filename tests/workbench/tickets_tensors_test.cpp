// The same lists as JSON, as FlashAttention-4's tensors and as a BlockMask's are the same tickets.

#include "core/error.hpp"
#include "core/formats/bundle.hpp"
#include "core/json_value.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/refusal.hpp"
#include "workbench/tickets/document.hpp"
#include "workbench/tickets/files.hpp"
#include "workbench/tickets/lint.hpp"

#include <string>

namespace stagger::tickets {
namespace {

/// The arrays of a JSON object, as a file of tensors.
std::string tensors_of(const std::string& json, bool npz) {
  const JsonDocument document(json, "x");
  const formats::Bundle bundle = formats::read_json_tensors(document.root(), "x");
  return npz ? formats::write_npz(bundle) : formats::write_safetensors(bundle);
}

// Two heads of 2 KV blocks in 2 groups each, 3 Q blocks of 2 tiles: partial and full ones. The
// order of head 1's first full tile is another's.
const std::string kPartialCnt = "[[[1,2],[1,0]]]";
const std::string kPartialIdx = "[[[[0,0],[1,2]],[[2,0],[0,0]]]]";
const std::string kPartialOrder = "[[[[0,0],[1,1]],[[0,0],[0,0]]]]";
const std::string kFullCnt = "[[[2,0],[1,1]]]";
const std::string kFullIdx = "[[[[1,2],[0,0]],[[0,0],[0,0]]]]";
const std::string kFullOrder = "[[[[0,0],[0,0]],[[0,0],[1,0]]]]";
const std::string kForward =
    R"("mask_block_cnt": [[[1,1,1],[0,0,1]]], "mask_block_idx": [[[[0],[1],[1]],[[0],[0],[0]]]],
       "full_block_cnt": [[[0,1,1],[2,0,0]]],
       "full_block_idx": [[[[0,0],[0,0],[0,0]],[[0,1],[0,0],[0,0]]]])";
const std::string kKernel =
    R"("q_subtile": 2, "groups": 2, "group_total": 3, "q_tiles": 6, "heads_kv": 1)";

std::string fa4_lists(bool spt, const std::string& forward = kForward) {
  return R"("backward": {"mask_block_cnt": )" + kPartialCnt + R"(, "mask_block_idx": )" +
         kPartialIdx + R"(, "dq_write_order": )" + kPartialOrder + R"(, "full_block_cnt": )" +
         kFullCnt + R"(, "full_block_idx": )" + kFullIdx + R"(, "dq_write_order_full": )" +
         kFullOrder + R"(, "spt": )" + (spt ? "true" : "false") + R"(}, "forward": {)" + forward +
         "}";
}

std::string block_mask(bool spt) {
  return R"("q_num_blocks": )" + kPartialCnt + R"(, "q_indices": )" + kPartialIdx +
         R"(, "full_q_num_blocks": )" + kFullCnt + R"(, "full_q_indices": )" + kFullIdx +
         R"(, "dq_write_order": )" + kPartialOrder + R"(, "dq_write_order_full": )" + kFullOrder +
         R"(, "dq_kv_order_spt": )" + (spt ? "true" : "false") +
         R"(, "kv_num_blocks": [[[1,1,1],[0,0,1]]], "kv_indices": [[[[0],[1],[1]],[[0],[0],[0]]]],
            "full_kv_num_blocks": [[[0,1,1],[2,0,0]]],
            "full_kv_indices": [[[[0,0],[0,0],[0,0]],[[0,1],[0,0],[0,0]]]])";
}

TEST_CASE("lists are the same tickets as JSON and as tensors, by either name") {
  for (const bool spt : {false, true}) {
    const std::string json =
        R"({"schema": "stagger.fa4/1", )" + kKernel + ", " + fa4_lists(spt) + "}";
    Document wanted = read_document(json, "x.json");
    const std::size_t found = wanted.found.take().size();
    CHECK(wanted.tickets.programs() == 2 * 3);
    CHECK(wanted.lists.spt == spt);
    for (const bool npz : {false, true}) {
      for (const std::string& lists : {fa4_lists(spt), block_mask(spt)}) {
        CAPTURE(spt, npz, lists);
        Document read = read_document(tensors_of("{" + kKernel + ", " + lists + "}", npz), "x");
        CHECK(read.kind == Kind::fa4);
        CHECK_FALSE(read.json);
        CHECK(read.tickets == wanted.tickets);
        CHECK(read.found.take().size() == found);
      }
      // Without the kernel's numbers each has its obvious value.
      const std::string bare = "{" + fa4_lists(spt) + "}";
      const std::string as_json = R"({"schema": "stagger.fa4/1", )" + fa4_lists(spt) + "}";
      CHECK(read_document(tensors_of(bare, npz), "x").tickets ==
            read_document(as_json, "x").tickets);
    }
  }
}

TEST_CASE("forward lists beside tensors are held against them, where blocks are of one size") {
  const std::string other =
      R"("mask_block_cnt": [[[1,1,0],[0,0,1]]], "mask_block_idx": [[[[0],[1],[1]],[[0],[0],[0]]]],
         "full_block_cnt": [[[0,1,1],[2,0,0]]],
         "full_block_idx": [[[[0,0],[0,0],[0,0]],[[0,1],[0,0],[0,0]]]])";
  const auto found = [](const std::string& lists) {
    return read_document(tensors_of("{" + lists + "}", true), "x").found.take().size();
  };
  CHECK(found(fa4_lists(true)) == 0);
  CHECK(found(fa4_lists(true, other)) == 1);
  CHECK(found(fa4_lists(true, other + R"(, "block_size": [4, 4])")) == 0);
  // Fewer rows than the backward pass has Q blocks: other blocks, though nobody says so.
  const std::string larger =
      R"("mask_block_cnt": [[[1],[1]]], "mask_block_idx": [[[[0,1,0]],[[0,1,0]]]])";
  CHECK(found(fa4_lists(true, larger)) == 0);
}

/// One head of two KV and Q blocks: (kv 0: q 1 partial, q 0 full; kv 1: q 1 full), by one rank each
/// that `order` has for (kv 1, q 1). Which of the tensors have two heads is told by bits.
std::string spread_lists(unsigned twice, int order) {
  unsigned bit = 1;
  const auto heads = [&](const std::string& one) {
    const bool both = (twice & bit) != 0;
    bit *= 2;
    return both ? "[[" + one + "," + one + "]]" : "[[" + one + "]]";
  };
  std::string text = R"({"schema": "stagger.fa4/1", "backward": {"spt": false)";
  text += R"(, "mask_block_cnt": )" + heads("[1,0]");
  text += R"(, "mask_block_idx": )" + heads("[[1],[0]]");
  text += R"(, "dq_write_order": )" + heads("[[0],[0]]");
  text += R"(, "full_block_cnt": )" + heads("[1,1]");
  text += R"(, "full_block_idx": )" + heads("[[0],[1]]");
  text += R"(, "dq_write_order_full": )" + heads("[[0],[" + std::to_string(order) + "]]");
  text += R"(}, "forward": {"mask_block_cnt": )" + heads("[0,1]");
  text += R"(, "mask_block_idx": )" + heads("[[0],[0]]");
  text += R"(, "full_block_cnt": )" + heads("[1,1]");
  text += R"(, "full_block_idx": )" + heads("[[0],[1]]") + "}}";
  return text;
}

TEST_CASE("a head of one tensor is for all heads of another, in JSON and in tensors") {
  const Tickets one = read_document(spread_lists(0, 1), "x.json").tickets;
  const Tickets two = read_document(spread_lists((1U << 10) - 1, 1), "x.json").tickets;
  CHECK(one.programs() == 2);
  CHECK(two.programs() == 4);
  for (unsigned twice = 0; twice < (1U << 10); ++twice) {
    Document document = read_document(spread_lists(twice, 1), "x.json");
    CAPTURE(twice);
    REQUIRE(document.tickets == (twice == 0 ? one : two));
    REQUIRE(document.found.take().empty());
    if (twice % 37 == 0) {
      const Document tensors = read_document(tensors_of(spread_lists(twice, 1), true), "x");
      REQUIRE(tensors.tickets == document.tickets);
    }
  }
  // What is wrong is found where the file has it, though two heads have it.
  const std::string text = spread_lists(1, 2);
  const Linted report = lint(text, "x.json", {});
  REQUIRE_FALSE(report.findings.empty());
  REQUIRE(report.places.size() > 1);
  for (const At& place : report.places)
    CHECK(place.pointer == "/backward/dq_write_order_full/0/0/1/0");
}

TEST_CASE("what is wrong with tensors is placed by their names and indices") {
  const auto places = [](const std::string& json, std::size_t dropped) {
    formats::Bundle bundle = formats::read_npz(tensors_of(json, true), "x");
    for (formats::NamedTensor& each : bundle.tensors) {
      auto& shape = each.tensor.shape;
      if (shape.size() >= 3) shape.erase(shape.begin(), shape.begin() + static_cast<long>(dropped));
    }
    const Linted report = lint(formats::write_npz(bundle), "x.npz", {});
    REQUIRE_FALSE(report.findings.empty());
    CHECK(report.places.front().place.line == 0);
    return report.places.front().shown();
  };
  CHECK(places(spread_lists(0, 2), 0) == "backward.dq_write_order_full[0,0,1,0]");
  CHECK(places(spread_lists(0, 2), 1) == "backward.dq_write_order_full[0,1,0]");
  CHECK(places(spread_lists(0, 2), 2) == "backward.dq_write_order_full[1,0]");
  CHECK(places(spread_lists(1, 2), 0) == "backward.dq_write_order_full[0,0,1,0]");
  std::string flex = "{" + block_mask(false) + "}";
  const std::string wrong = R"("dq_write_order": [[[[0,0],[1,1]],[[3,0],[0,0]]]])";
  flex.replace(flex.find("\"dq_write_order\""), wrong.size(), wrong);
  CHECK(places(flex, 0) == "dq_write_order[0,1,0,0]");
  // What cannot be read too.
  std::string cut = spread_lists(0, 1);
  cut.replace(cut.find("[1,0]"), 5, "[1,5]");
  CHECK_THROWS_WITH(read_document(tensors_of(cut, true), "x.npz"),
                    "x.npz: backward.mask_block_cnt[0,0,1] = 5, and backward.mask_block_idx has "
                    "room for 1");
  cut = cut.substr(0, cut.find(", \"forward\"")) + "}";
  CHECK_THROWS_WITH(
      read_document(tensors_of(cut, true), "x.npz"),
      "x.npz: backward.mask_block_idx[0,0,1]: has 1 items, and mask_block_cnt says 5");
}

TEST_CASE("lists are read from JSON of tensors too, as the mask's reader has them") {
  std::string flex = "{" + block_mask(false) + "}";
  const std::string wrong = R"("dq_write_order": [[[[0,0],[1,1]],[[3,0],[0,0]]]])";
  flex.replace(flex.find("\"dq_write_order\""), wrong.size(), wrong);
  const Linted json = lint(flex, "x.json", {.residency = 1});
  const Linted npz = lint(tensors_of(flex, true), "x.npz", {.residency = 1});
  REQUIRE(json.findings.size() == npz.findings.size());
  REQUIRE_FALSE(json.findings.empty());
  CHECK(json.findings.front().message == npz.findings.front().message);
  CHECK(json.places.front().shown() == npz.places.front().shown());
  CHECK_THROWS_WITH(
      read_document(R"({"q_num_blocks": [[[1]]], "q_indices": [[[["x"]]]]})", "x.json"),
      Catch::StartsWith("x.json: "));
  CHECK_THROWS_WITH(
      read_document(R"({"kv_num_blocks": [[[1]]], "kv_indices": [[[[0]]]]})", "x.json"),
      Catch::StartsWith("x.json: no tickets that are known: neither "));
}

TEST_CASE("a BlockMask's order is refused without its direction, and with a launch order") {
  const auto refusal = [](const std::string& what, const std::string& by) {
    std::string flex = "{" + block_mask(true) + "}";
    flex.replace(flex.find(what), what.size(), by);
    return test::message_of(
        [&] { static_cast<void>(read_document(tensors_of(flex, true), "x.npz")); },
        ErrorKind::invalid_input);
  };
  CHECK(refusal(R"(, "dq_kv_order_spt": true)", "")
            .starts_with("x.npz: there is no spt (a BlockMask's dq_kv_order_spt): "));
  CHECK(refusal(R"(, "dq_write_order_full": )" + kFullOrder, "")
            .starts_with("x.npz: there is no dq_write_order_full: "));
  CHECK(refusal(R"("dq_kv_order_spt": true)", R"("dq_kv_order": [[[0,1]]])")
            .starts_with("x.npz: dq_kv_order, a launch order of its own, is not read"));
}

TEST_CASE("semaphores may begin at values of their own, in both directions") {
  const std::string text =
      R"({"schema": "stagger.tickets/1", "semaphores": 3, "initial": [2, -1, 0],
          "programs": [[[0,2,1,1,0,0,0],[1,-1,1,1,0,0,1],[2,0,1,1,0,0,2]]]})";
  const Tickets tickets = read_document(text, "x.json").tickets;
  CHECK(tickets.initial[Semaphore{0}] == 2);
  CHECK(tickets.initial[Semaphore{1}] == -1);
  CHECK(tickets.initial[Semaphore{2}] == 0);
  CHECK(write_tickets_json(tickets).find("\"initial\": [2,-1,0]") != std::string::npos);
  CHECK(read_document(write_tickets_json(tickets), "x.json").tickets == tickets);
}

TEST_CASE("an array of lock values is read from numpy's file as from text") {
  formats::Bundle one;
  formats::NamedTensor named{.name = "locks"};
  named.tensor = {.dtype = formats::Dtype::int32, .shape = {3, 2}, .elements = {0, -1, 1, 0, 2, 1}};
  one.tensors.push_back(named);
  const std::string npz = formats::write_npz(one);
  const std::string npy =
      npz.substr(npz.find("\x93NUMPY"), npz.find("PK\x01\x02") - npz.find("\x93NUMPY"));
  const Document document = read_document(npy, "x.npy");
  CHECK(document.kind == Kind::lock_values);
  CHECK(document.tickets == read_document("0,\n1,0\n2,1\n", "x.csv").tickets);
  one.tensors.front().tensor.elements = {0, -1, 1, 0, 2, 2};
  const std::string wrong = formats::write_npz(one);
  const std::size_t begin = wrong.find("\x93NUMPY");
  const Linted report = lint(wrong.substr(begin, wrong.find("PK\x01\x02") - begin), "x.npy", {});
  REQUIRE_FALSE(report.findings.empty());
  CHECK(report.places.front().shown() == "[2,1]");
}

TEST_CASE("lock values are of one head, and tensors without an order are no tickets") {
  formats::Bundle heads;
  formats::NamedTensor named{.name = "locks"};
  named.tensor = {.dtype = formats::Dtype::int32, .shape = {2, 2, 1}, .elements = {0, 1, 0, 1}};
  heads.tensors.push_back(named);
  const std::string npz = formats::write_npz(heads);
  const std::size_t begin = npz.find("\x93NUMPY");
  CHECK_THROWS_WITH(read_document(npz.substr(begin, npz.find("PK\x01\x02") - begin), "x.npy"),
                    Catch::Contains("lock values are of one head: an array [kv, q]"));
  CHECK_THROWS_WITH(read_document(tensors_of(R"({"some_counts": [[[1]]]})", true), "x.npz"),
                    Catch::Contains("no tickets that are known"));
}

}  // namespace
}  // namespace stagger::tickets
