// Timelines, places in a JSON text and rates of blocks, kept in tests/golden/core-intervals.txt,
// core-places.txt and core-rates.txt. What they must say is tested elsewhere; here no letter of it
// changes unseen.

#include "core/block_rates.hpp"
#include "core/files.hpp"
#include "core/json_place.hpp"
#include "core/json_value.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/golden.hpp"
#include "tests/support/refusal.hpp"

#include <sstream>
#include <string>
#include <vector>

namespace stagger {
namespace {

TEST_CASE("intervals of a timeline are within its SMs, heads and time") {
  const auto read = [](const std::string& interval) {
    return test::said([&] {
      const Timeline line = read_timeline_json(
          R"({"schema": "stagger.timeline/1", "clock": "ticks", "sms": 3, "heads": 2,)"
          R"( "makespan": 5, "intervals": [{)" +
              interval + "}]}",
          "line");
      return write_timeline_json(line);
    });
  };
  std::ostringstream text;
  for (const char* place :
       {R"("sm": 2, "head": 1, "kv": 1048576, "q": 1048576)",
        R"("sm": 3, "head": 1, "kv": 0, "q": 0)", R"("sm": 4, "head": 1, "kv": 0, "q": 0)",
        R"("sm": 0, "head": 2, "kv": 0, "q": 0)", R"("sm": 0, "head": 3, "kv": 0, "q": 0)",
        R"("sm": 0, "head": 0, "kv": 1048577, "q": 0)",
        R"("sm": 0, "head": 0, "kv": 0, "q": 1048577)", R"("sm": -1, "head": 0, "kv": 0, "q": 0)"})
    text << place << ": " << read(std::string(place) + R"(, "phase": "wait", "start": 1, "end": 7)")
         << "\n";
  for (const char* rest :
       {R"("phase": "reduce", "start": 4, "end": 4)", R"("phase": "reduce", "start": 4, "end": 3)",
        R"("phase": "reduce", "start": -1, "end": 3)",
        R"("phase": "nothing", "start": 1, "end": 3)",
        R"("phase": "launch", "start": 0, "end": 4611686018427387904)",
        R"("phase": "launch", "start": 0, "end": 4611686018427387905)",
        R"("phase": "reduce-kv", "start": 1, "end": 3, "rank": 2147483647)",
        R"("phase": "epilogue", "start": 1, "end": 3, "rank": 2147483648)",
        R"("phase": "compute", "start": 1, "end": 3, "critical": true)"})
    text << rest << ": " << read(std::string(R"("sm": 1, "head": 1, "kv": 2, "q": 3, )") + rest)
         << "\n";
  CHECK(test::golden_difference("core-intervals.txt", text.str()) == "");
}

TEST_CASE("every value of a JSON text is where it is kept to be") {
  const std::string json =
      "{ \"a\" : [ 1 , -2.5e3 ,\n\ttrue, { \"b,]}\" : [ ], \"c\\\"\\\\\" : { } } ],\r\n"
      "\"\": null, \"d\": \"x\\\\\",\"e\":[[[7]],\n[8,[9,{\"f\":0}]]] }\n";
  const std::vector<std::string> pointers = {
      "",       "/a",        "/a/0",           "/a/1",     "/a/2",
      "/a/3",   "/a/3/b,]}", "/a/4",           "/",        "/d",
      "/e",     "/e/0",      "/e/0/0",         "/e/0/0/0", "/e/1",
      "/e/1/0", "/e/1/1",    "/e/1/1/0",       "/e/1/1/1", "/e/1/1/1/f",
      "/e/1/2", "/e/0/0/1",  "/a/3/c\\\"\\\\", "/f"};
  std::ostringstream text;
  const auto words = [](const TextRange& range) {
    const auto& [begin, end] = range;
    return std::to_string(begin.line) + ":" + std::to_string(begin.column) + "-" +
           std::to_string(end.line) + ":" + std::to_string(end.column) + "\n";
  };
  const std::vector<TextRange> ranges = json_places(json, pointers);
  for (std::size_t index = 0; index < pointers.size(); ++index)
    text << pointers[index] << " " << words(ranges[index]);
  // One at a time nothing deeper is kept.
  for (const std::string& pointer : pointers) {
    text << pointer << " alone " << words(json_places(json, std::vector{pointer}).front());
  }
  CHECK(test::golden_difference("core-places.txt", text.str()) == "");
}

TEST_CASE("rates of blocks are written as kept") {
  BlockRates rates{.gemm_tflops = 612.5,
                   .gemm_t0_ns = 4'000,
                   .copy = {{.size = 1, .rate = 3.5}},
                   .kappas = {{.permille = 4'400}}};
  std::ostringstream text;
  text << write_block_rates(std::vector{rates}) << "\n";
  rates.gemm_tflops = 700;
  rates.copy = {{.size = 1e6, .rate = 2}, {.size = 64e6, .rate = 3.07}, {.size = 2e15, .rate = 4}};
  rates.kappas = {{.ops = Ops::eager, .layers = "swiglu", .permille = 1'200},
                  {.ops = Ops::compiled, .layers = std::nullopt, .permille = 900}};
  rates.attention = {{.name = "ours",
                      .head_dim = 64,
                      .causal = true,
                      .seq = 4'096,
                      .forward_tflops = 300,
                      .backward_tflops = 210.25},
                     {.name = "theirs",
                      .head_dim = 128,
                      .causal = false,
                      .seq = 512,
                      .forward_tflops = 1e-6,
                      .backward_tflops = 1e9}};
  rates.source = "a \"page\"";
  rates.date = "2026";
  text << write_block_rates(std::vector{rates}) << "\n";
  for (const double size : {0.5, 1e6, 2e6, 8e6, 64e6, 1e9, 2e15, 1e16})
    text << size << ": " << rate_at(rates.copy, size) << "\n";
  CHECK(test::golden_difference("core-rates.txt", text.str()) == "");
  const JsonDocument least(
      R"({"gemm_tflops": 1, "gemm_t0_ns": 0, "copy_tbs": 2, "kappa_permille": 3})", "rates");
  const BlockRates read = read_block_rates(least.root()).front();
  CHECK(read == BlockRates{.gemm_tflops = 1,
                           .gemm_t0_ns = 0,
                           .copy = {{.size = 1, .rate = 2}},
                           .kappas = {{.permille = 3}}});
}

TEST_CASE("rates of attention are one for each name, head_dim, mask and length") {
  const AttentionRate one{.name = "ours",
                          .head_dim = 64,
                          .causal = true,
                          .seq = 4'096,
                          .forward_tflops = 300,
                          .backward_tflops = 200};
  BlockRates rates{.gemm_tflops = 600,
                   .gemm_t0_ns = 4'000,
                   .copy = {{.size = 1, .rate = 3}},
                   .kappas = {{.permille = 4'400}}};
  rates.attention.assign(5, one);
  rates.attention[1].name = "theirs";
  rates.attention[2].head_dim = 128;
  rates.attention[3].causal = false;
  rates.attention[4].seq = 8'192;
  const auto read = [](const BlockRates& written) {
    return read_block_rates(JsonDocument(write_block_rates(std::vector{written}), "rates").root())
        .front();
  };
  CHECK(read(rates) == rates);
  for (const AttentionRate& each : rates.attention) {
    BlockRates twice = rates;
    twice.attention.push_back(each);
    twice.attention.back().forward_tflops += 1;
    CHECK(test::said([&] { return read(twice).source; }).starts_with("refused"));
  }
}

}  // namespace
}  // namespace stagger
