#include "core/json.hpp"

#include "core/files.hpp"
#include "core/mask.hpp"
#include "core/problem.hpp"
#include "tests/support/catch.hpp"

#include <limits>

namespace stagger {

TEST_CASE("JSON is written as it was put together") {
  Json json = {{"schema", "stagger.x/1"}, {"count", 3}, {"inner", {{"kv", 1}}}};
  json["count"] = 4;
  json["absent"] = std::optional<std::vector<int>>{};
  json["rows"].push_back({{"q", 1}});
  json["rows"].back()["rank"] = 2;
  CHECK(json.line() ==
        R"({"schema": "stagger.x/1", "count": 4, "inner": {"kv": 1}, "absent": null, )"
        R"("rows": [{"q": 1, "rank": 2}]})");
  CHECK(json.text() ==
        "{\n \"schema\": \"stagger.x/1\",\n \"count\": 4,\n \"inner\": {\n  \"kv\": 1\n },\n"
        " \"absent\": null,\n \"rows\": [\n  {\n   \"q\": 1,\n   \"rank\": 2\n  }\n ]\n}");
}

TEST_CASE("What JSON holds is written so that it reads back the same") {
  CHECK(Json(std::numeric_limits<std::uint64_t>::max()).line() == "18446744073709551615");
  CHECK(Json(-7).line() == "-7");
  CHECK(Json(0.1).line() == "0.1");
  CHECK(Json(2.0).line() == "2.0");
  CHECK(Json(1e-5).line() == "1e-05");
  CHECK(Json(true).line() == "true");
  CHECK(Json("a \"b\"\n").line() == R"("a \"b\"\n")");
  CHECK(Json(std::vector<std::string>{"a", "b"}).line() == R"(["a","b"])");
  CHECK(Json::array().text() == "[]");
  CHECK(Json::object().text() == "{}");
  CHECK(Json().line() == "null");
}

TEST_CASE("a mask of tiles is as long as its tiles are") {
  CHECK(implied_lengths(parse_mask("tiles:rows=ffp+.pf"), {.q = 2, .kv = 5}) == Lengths{6, 10});
}

TEST_CASE("The words of a mask and the JSON of a problem read back the same") {
  for (const MaskFamily& family : mask_families()) {
    CAPTURE(family.name);
    const Mask mask = parse_mask(family.example);
    const Mask again = parse_mask(mask_words(mask));
    CHECK(again.family == mask.family);
    CHECK(again.values == mask.values);
    const Lengths lengths = implied_lengths(mask, {});
    const Problem problem =
        make_problem(mask, {lengths.q == 0 ? 6 : lengths.q, lengths.kv == 0 ? 6 : lengths.kv}, {},
                     std::max<std::int64_t>(mask_heads(mask), 2), 3);
    const JsonDocument document(problem_json(problem).text(), "problem");
    const Problem read = read_problem(document.root());
    CHECK(read.grids == problem.grids);
    CHECK(read.heads == problem.heads);
    CHECK(read.sms == problem.sms);
    CHECK(read.mask.values == problem.mask.values);
  }
  CHECK(mask_words(parse_mask("sliding:right=0,left=4")) == "sliding:left=4,right=0");
}

TEST_CASE("A problem and a task have one line") {
  CHECK(describe(make_problem(make_mask("causal"), {8, 8}, {}, 4, 0)) ==
        "causal, 8 KV x 8 Q tiles, 4 heads on 8 SMs: 144 tasks");
  CHECK(describe(make_problem(parse_mask("sliding:left=4,right=0"), {6, 4}, {3, 4}, 1, 1)) ==
        "sliding left=4 right=0, 1 KV x 2 Q tiles of 4 x 3 tokens, 1 head on 1 SM: 2 tasks");
  CHECK(describe(Task{Head{1}, KvTile{2}, QTile{3}}) == "(head 1, kv 2, q 3)");
}

}  // namespace stagger
