#include "core/error.hpp"
#include "core/files.hpp"
#include "tests/support/blocks.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random.hpp"
#include "tests/support/refusal.hpp"
#include "workbench/block/bars.hpp"
#include "workbench/block/cost.hpp"
#include "workbench/block/kernels.hpp"
#include "workbench/block/transformer.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iomanip>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace stagger::block {
namespace {

TEST_CASE("FLOPs and bytes of a block are those of its dimensions") {
  struct Row {
    const char* name;
    std::int64_t seq;
    std::int64_t batch;
    std::int64_t parameters;
    double gemm_tflop;
    double forward_tflop;
    double backward_tflop;
    double elementwise_gb;
  };
  constexpr Row kRows[] = {
      {"llama3-8b", 16384, 1, 218'103'808, 21.44, 2.199, 5.498, 6.71},
      {"qwen2.5-7b", 16384, 1, 233'046'016, 22.91, 1.924, 4.810, 7.50},
      {"mixtral-8x7b", 16384, 1, 394'264'576, 38.76, 2.199, 5.498, 10.47},
      {"sam-h", 4096, 16, 19'660'800, 7.73, 1.374, 3.436, 6.21},
      {"sd3.5-large", 4096, 16, 70'975'488, 27.91, 2.611, 6.528, 11.79},
      {"sd3.5-medium", 4096, 16, 28'311'552, 11.13, 1.649, 4.123, 7.45},
      {"llada-1b", 4096, 16, 44'040'192, 17.32, 2.199, 5.498, 11.68},
      {"llada-8b", 4096, 16, 218'103'808, 85.76, 4.398, 10.995, 26.31},
  };
  for (const Row& row : kRows) {
    CAPTURE(row.name);
    const Transformer model = test::model_at(row.name, row.seq, row.batch);
    const std::vector<Kernel> kernels = kernels_of(model);
    CHECK(active_parameters(model) == row.parameters);
    // Exactly 6 T P, and to the printed digits what was measured against.
    CHECK(flops_of(kernels, Work::gemm) == 6 * row.seq * row.batch * row.parameters);
    CHECK(std::abs(1e-12 * double(flops_of(kernels, Work::gemm)) - row.gemm_tflop) < 0.006);
    CHECK(std::abs(1e-9 * double(bytes_of(kernels, Work::elementwise)) - row.elementwise_gb) <
          0.006);
    for (const Kernel& kernel : kernels) {
      if (kernel.work != Work::attention) continue;
      const double expected = kernel.pass == Pass::forward ? row.forward_tflop : row.backward_tflop;
      CHECK(std::abs(1e-12 * double(kernel.flops) - expected) < 0.0006);
    }
  }
}

TEST_CASE("attention moves each tensor once") {
  // The least traffic of the backward pass beside the forward one, as in 0.6795 GB of both passes'
  // inputs and gradients: here 2 (4 X + 4 Y) + 16 b H s.
  const std::vector<Kernel> kernels = kernels_of(test::model_at("llama3-8b", 16384, 1));
  for (const Kernel& kernel : kernels) {
    if (kernel.work != Work::attention || kernel.pass != Pass::backward) continue;
    CHECK(kernel.bytes == 679'477'248);
  }
}

TEST_CASE("live pairs of a window are counted, up to half a tile's diagonal") {
  test::Random random(test::seed(7));
  for (int round = 0; round < 200; ++round) {
    Transformer model = test::builtin_model("mistral-7b");
    model.seq = random.between(1, 300);
    model.window = random.between(1, 400);
    model.attention = Attention::sliding;
    std::int64_t pairs = 0;
    for (std::int64_t q = 0; q < model.seq; ++q)
      pairs += std::min(q + 1, model.window);
    CAPTURE(model.seq, model.window, pairs);
    for (const Kernel& kernel : kernels_of(model)) {
      if (kernel.work != Work::attention || kernel.pass != Pass::forward) continue;
      // Half of the diagonal's pairs are left out, as of a causal mask's s^2 / 2.
      const std::int64_t diagonal = std::min(model.window, model.seq);
      CHECK(kernel.flops == 2 * model.heads * model.head_dim * (2 * pairs - diagonal));
    }
  }
}

TEST_CASE("tensor parallel devices share heads and FFN, not the norms") {
  const Transformer model = test::model_at("llama3-8b", 4096, 1);
  const std::vector<Kernel> whole = kernels_of(model);
  const std::vector<Kernel> eighth = kernels_of(model, 8);
  REQUIRE(whole.size() == eighth.size());
  for (std::size_t index = 0; index < whole.size(); ++index) {
    CAPTURE(whole[index].name);
    CHECK(whole[index].flops == 8 * eighth[index].flops);
    const bool norms = whole[index].name == "norms and residuals";
    if (whole[index].work == Work::elementwise) {
      CHECK(whole[index].bytes == (norms ? 1 : 8) * eighth[index].bytes);
    }
  }
  CHECK(reduced_bytes(model, 8) == 4 * 2 * 4096 * 4096);
  CHECK(reduced_bytes(model, 1) == 0);
  // Fewer KV heads than devices: each has a copy.
  CHECK(shard_of(test::model_at("qwen2.5-7b", 4096, 1), 4).heads_kv == 1);
  CHECK(shard_of(with(model, {.heads_kv = 1}), 8).heads_kv == 1);
  CHECK_THAT(test::message_of([&] { static_cast<void>(kernels_of(model, 3)); }, ErrorKind::usage),
             Catch::Contains("32 heads cannot be shared by 3 devices"));
}

TEST_CASE("a block takes what its kernels take") {
  const Transformer model = test::model_at("llama3-8b", 16384, 1);
  const BlockCost cost = cost_of(model, {.machine = test::toy_machine()});
  std::map<std::pair<std::string, Pass>, double> ms;
  double sum = 0;
  for (const TimedKernel& timed : cost.kernels) {
    ms[{timed.kernel.name, timed.kernel.pass}] = timed.ms;
    sum += timed.ms;
  }
  const double tokens = 16384;
  CHECK(ms.at({"qkv", Pass::forward}) == Approx(2 * tokens * 4096 * 6144 / 100e9));
  CHECK(ms.at({"gate+up", Pass::backward}) == Approx(4 * tokens * 4096 * 28672 / 100e9));
  CHECK(ms.at({"norms and residuals", Pass::forward}) == Approx(2 * 2 * tokens * 9 * 4096 / 1e9));
  CHECK(ms.at({"rope", Pass::backward}) == Approx(2 * 2 * tokens * 2 * 40 * 128 / 1e9));
  CHECK(ms.at({"activation", Pass::backward}) == Approx(2 * 2 * tokens * 5 * 14336 / 1e9));
  CHECK(ms.at({"attention", Pass::backward}) == Approx(10 * 32 * tokens * tokens * 64 / 44e9));
  CHECK(cost.total_ms == Approx(sum));
  CHECK(cost.fraction() == Approx(ms.at({"attention", Pass::backward}) / sum));
  CHECK(cost.ops == Ops::eager);
  CHECK(cost.attention == "a");
  // Half way between two sequences, in octaves, is half way between their rates.
  const BlockCost between =
      cost_of(test::model_at("llama3-8b", 8192, 1), {.machine = test::toy_machine()});
  CHECK(between.attention_backward_ms == Approx(10.0 * 32 * 8192 * 8192 * 64 / 42e9));
}

TEST_CASE("a block at its device's power limit is as slow as its clock") {
  const Transformer model = test::model_at("llama3-8b", 16384, 1);
  Machine machine = test::toy_machine();
  const BlockCost full = cost_of(model, {.machine = machine});
  CHECK(full.clock == 1);
  machine.blocks.front().throttle = {.above_tflops = 60, .ppm = 10'000};
  const BlockCost cost = cost_of(model, {.machine = machine});
  CHECK(cost.clock < 0.95);
  double gflops = 0;
  for (std::size_t index = 0; index < cost.kernels.size(); ++index) {
    const TimedKernel& timed = cost.kernels[index];
    const bool tensor = timed.kernel.work != Work::elementwise;
    CHECK(timed.ms == Approx(full.kernels[index].ms / (tensor ? cost.clock : 1)));
    gflops += 1e-9 * static_cast<double>(timed.kernel.flops);
  }
  // The clock is that of what the block reaches by it.
  CHECK(cost.tflops == Approx(gflops / cost.total_ms));
  CHECK(cost.clock == Approx(1 - 0.01 * (cost.tflops - 60)));
  // What is given is as it was measured, and counts for the clock.
  const BlockCost given = cost_of(
      model, {.machine = machine, .attention_forward_ms = 60, .attention_backward_ms = 130});
  CHECK(given.attention_backward_ms == 130);
  CHECK(given.clock > cost.clock);
  CHECK(given.clock == Approx(1 - 0.01 * (given.tflops - 60)));
  // Up to the limit the clock is full, and it never stands still.
  machine.blocks.front().throttle = {.above_tflops = 100, .ppm = 10'000};
  CHECK(cost_of(model, {.machine = machine}).clock == 1);
  machine.blocks.front().throttle = {.above_tflops = 0, .ppm = 1'000'000};
  const double least = cost_of(model, {.machine = machine}).clock;
  CHECK(least >= Throttle::kLeastClock);
  CHECK(least < Throttle::kLeastClock + 1e-9);
}

TEST_CASE("a GEMM takes a part of its bytes' time beside its FLOPs") {
  const Transformer model = test::model_at("llama3-8b", 16384, 1);
  Machine machine = test::toy_machine();
  machine.blocks.front().gemm_exposed_permille = 250;
  const BlockCost cost = cost_of(model, {.machine = machine});
  const BlockCost hidden = cost_of(model, {.machine = test::toy_machine()});
  for (std::size_t index = 0; index < cost.kernels.size(); ++index) {
    const Kernel& kernel = cost.kernels[index].kernel;
    const double bytes = kernel.work == Work::gemm ? double(kernel.bytes) : 0;
    CHECK(cost.kernels[index].ms - hidden.kernels[index].ms == Approx(0.25e-9 * bytes));
  }
  // Where bytes take longer than FLOPs they hide those.
  const Transformer one = test::model_at("llama3-8b", 1, 1);
  CHECK(cost_of(one, {.machine = machine}).kernels[1].ms ==
        cost_of(one, {.machine = test::toy_machine()}).kernels[1].ms);
  CHECK(cost_of(one, {.machine = machine}).kernels[1].bound_by == Bound::memory);
}

TEST_CASE("attention goes by the rates of as many heads, else of the number nearest") {
  const Transformer model = test::model_at("llama3-8b", 16384, 1);  // 32 heads
  Machine machine = test::toy_machine();
  const auto backward = [&](const Transformer& asked, std::int64_t tp = 1) {
    return 1e-9 * 10 * double(asked.heads) / double(tp) * double(asked.seq) * double(asked.seq) *
           64 / cost_of(asked, {.machine = machine, .tp = tp}).attention_backward_ms;
  };
  const auto with_heads = [&](std::int64_t heads) {
    Transformer other = model;
    other.heads = heads;
    other.heads_kv = 4;
    return other;
  };
  machine.blocks.front().attention = {{"a", 128, true, 16384, 50, 50, 20},
                                      {"a", 128, true, 16384, 50, 60},
                                      {"a", 128, true, 16384, 50, 70, 32},
                                      {"b", 128, true, 16384, 50, 1, 32}};
  CHECK(backward(model) == Approx(70));
  CHECK(backward(with_heads(20)) == Approx(50));
  CHECK(backward(with_heads(16)) == Approx(60));  // those of any heads
  CHECK(backward(model, 2) == Approx(60));        // a device has 16
  machine.blocks.front().attention.erase(machine.blocks.front().attention.begin() + 1);
  CHECK(backward(with_heads(16)) == Approx(50));  // 20 is nearer than 32
  CHECK(backward(with_heads(64)) == Approx(70));
}

TEST_CASE("what is given wins over the rates") {
  const Transformer model = test::model_at("llama3-8b", 16384, 1);
  const BlockCost plain = cost_of(model, {.machine = test::toy_machine(), .ops = Ops::compiled});
  CHECK(plain.kappa == 1.5);
  const BlockCost given = cost_of(model, {.machine = test::toy_machine(),
                                          .kappa = 3,
                                          .attention_forward_ms = 4,
                                          .attention_backward_ms = 5});
  CHECK(given.attention.empty());
  CHECK(given.attention_backward_ms == 5);
  CHECK(given.kappa == 3);
  CHECK(given.ops == std::nullopt);  // nobody says what that kappa is of
  CHECK(plain.ops == Ops::compiled);
  CHECK(cost_of(model, {.machine = test::toy_machine(), .attention_backward_ms = 5, .block_ms = 77})
            .total_ms == 77);
  Machine without_t0 = test::toy_machine();
  without_t0.blocks.front().gemm_t0_ns = 1'000'000;
  const BlockCost slow = cost_of(model, {.machine = without_t0});
  const BlockCost fast = cost_of(model, {.machine = test::toy_machine()});
  CHECK(slow.total_ms - fast.total_ms == Approx(12));  // 4 GEMMs forward, 8 backward
}

TEST_CASE("a block is timed by the rates of the load that is asked for") {
  const Transformer model = test::model_at("llama3-8b", 16384, 1);
  Machine machine = test::toy_machine();
  machine.blocks.front().load = Load::burst;
  BlockRates slower = machine.blocks.front();
  slower.load = Load::sustained;
  slower.gemm_tflops /= 2;
  slower.attention.front().name = "b";
  for (AttentionRate& rate : slower.attention)
    rate = {"b", 128, true, rate.seq, rate.forward_tflops / 2, rate.backward_tflops / 2};
  slower.kappas = {{.permille = 4000}};
  slower.throttle.rested_permille = 500;
  machine.blocks.push_back(slower);

  const CostRequest first{.machine = machine};
  const CostRequest burst{.machine = machine, .load = Load::burst};
  const CostRequest sustained{.machine = machine, .load = Load::sustained};
  const BlockCost before = cost_of(model, burst);
  CHECK(cost_of(model, first).total_ms == before.total_ms);
  const BlockCost after = cost_of(model, sustained);
  CHECK(after.attention == "b");
  CHECK(after.total_ms == Approx(2 * before.total_ms));
  CHECK(within_ms({.ms = 3, .rested = true}, burst, before) == Approx(3));
  CHECK(within_ms({.ms = 3, .rested = true}, sustained, after) == Approx(6));
  const auto named = [&](const CostRequest& request) {
    CostRequest other = request;
    other.attention = "c";
    return test::message_of([&] { static_cast<void>(cost_of(model, other)); }, ErrorKind::usage);
  };
  CHECK_THAT(named(burst), Catch::Contains("known: a"));
  CHECK_THAT(named(sustained), Catch::Contains("known: b"));
}

TEST_CASE("a profile that lacks a rate says what it has") {
  const auto refused = [](const Transformer& model, const CostRequest& request) {
    return test::message_of([&] { static_cast<void>(cost_of(model, request)); }, ErrorKind::usage);
  };
  const Transformer llama = test::model_at("llama3-8b", 16384, 1);
  Machine machine = test::toy_machine();
  CHECK_THAT(refused(test::model_at("sam-h", 4096, 16), {.machine = machine}),
             Catch::Contains("no rates of attention at head_dim 80, full; it has a (head_dim 128, "
                             "causal)"));
  CHECK_THAT(refused(llama, {.machine = machine, .attention = "b"}),
             Catch::Contains("unknown attention 'b'"));
  machine.blocks.front().kappas = {{.ops = Ops::compiled, .permille = 1}};
  CHECK_THAT(refused(llama, {.machine = machine, .ops = Ops::eager}),
             Catch::Contains("no kappa of eager swiglu layers; it has those of compiled any"));
  machine.blocks.clear();
  CHECK_THAT(refused(llama, {.machine = machine}), Catch::Contains("has no rates of blocks"));
  CHECK_THAT(
      refused(llama, {.machine = test::toy_machine(), .attention_backward_ms = 5, .block_ms = 5}),
      Catch::Contains("longer than its attention backward"));
}

TEST_CASE("blocks measured on an H200 are predicted from its profile") {
  const std::string path = std::string(STAGGER_SOURCE_DIR) + "/configs/machines/h200.json";
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  const Machine h200 = read_machine_json(text.str(), path);
  struct Row {
    const char* name;
    std::int64_t seq;
    std::int64_t batch;
    const char* attention;
    double measured;
    double within;
  };
  constexpr Row kRows[] = {{"llama3-8b", 8192, 1, "cudnn", 22.30, 0.03},
                           {"llama3-8b", 16384, 1, "cudnn", 51.81, 0.03},
                           {"llama3-8b", 32768, 1, "cudnn", 132.0, 0.03},
                           {"qwen2.5-7b", 16384, 1, "cudnn", 52.52, 0.03},
                           {"mixtral-8x7b", 16384, 1, "cudnn", 84.89, 0.03},
                           {"sam-h", 4096, 16, "cudnn", 28.11, 0.03},
                           {"sd3.5-large", 4096, 16, "cudnn", 67.50, 0.03},
                           {"sd3.5-medium", 4096, 16, "cudnn", 33.35, 0.03},
                           {"llada-1b", 4096, 16, "cudnn", 54.63, 0.03},
                           {"llada-8b", 4096, 16, "cudnn", 186.5, 0.08},
                           {"llama3-8b", 8192, 1, "flash", 24.85, 0.03},
                           {"llama3-8b", 16384, 1, "flash", 62.97, 0.03},
                           {"llama3-8b", 16384, 1, "flash-deterministic", 75.78, 0.03},
                           {"llama3-8b", 32768, 1, "flash-deterministic", 223.6, 0.03}};
  for (const Row& row : kRows) {
    const BlockCost cost = cost_of(test::model_at(row.name, row.seq, row.batch),
                                   {.machine = h200, .attention = row.attention});
    CAPTURE(row.name, row.seq, row.attention, cost.total_ms, row.measured,
            cost.total_ms / row.measured - 1);
    CHECK(std::abs(cost.total_ms / row.measured - 1) < row.within);
  }
}

TEST_CASE("devices that KV heads do not divide, nor are divided by, share none") {
  Transformer model = test::model_at("llama3-8b", 4096, 1);
  model.heads = 24;
  model.hidden = 24 * model.head_dim;
  const auto kv_of = [&](std::int64_t heads_kv, std::int64_t tp) {
    model.heads_kv = heads_kv;
    std::int64_t flops = 0;
    for (const Kernel& kernel : kernels_of(model, tp)) {
      if (kernel.name == "qkv" && kernel.pass == Pass::forward) flops = kernel.flops;
    }
    // 2 FLOPs a token for each of hidden x (Q + 2 KV) x head_dim.
    const std::int64_t columns = flops / (2 * model.batch * model.seq * model.hidden);
    return (columns / model.head_dim - model.heads / tp) / 2;
  };
  CHECK(kv_of(24, 4) == 6);
  CHECK(kv_of(8, 4) == 2);
  CHECK(kv_of(4, 4) == 1);
  CHECK(kv_of(2, 4) == 1);  // a copy for two devices each
  CHECK(kv_of(1, 8) == 1);
  for (const std::int64_t heads_kv : {3, 6, 12}) {
    const std::string message =
        test::message_of([&] { static_cast<void>(kv_of(heads_kv, 8)); }, ErrorKind::usage);
    CHECK_THAT(message, Catch::Contains(" KV heads cannot be shared by 8 devices"));
  }
}

TEST_CASE("a window is given to attention that has a diagonal") {
  CHECK_THAT(test::message_of(
                 [&] { static_cast<void>(with(test::builtin_model("sam-h"), {.window = 5})); },
                 ErrorKind::usage),
             Catch::Contains("its attention is full, and has no window"));
  const Transformer window = with(test::builtin_model("llama3-8b"), {.window = 512});
  CHECK(window.attention == Attention::sliding);
  CHECK(window.window == 512);
  CHECK(with(window, {.window = 0}).attention == Attention::causal);
}

TEST_CASE("bars are as long as what they stand for, the longest over the whole width") {
  const Transformer model = test::model_at("llama3-8b", 4096, 1);
  const BlockCost cost = cost_of(model, {.machine = test::toy_machine()});
  double longest = 0;
  for (const TimedKernel& kernel : cost.kernels)
    longest = std::max(longest, kernel.ms);
  for (const double replaced : {0.5 * longest, 4 * longest}) {
    std::vector<double> widths;
    std::istringstream lines(
        bars_svg("title", cost, Replacement{.attention_backward_ms = replaced}));
    for (std::string line; std::getline(lines, line);) {
      const std::size_t at = line.find(" width=\"");
      if (line.starts_with("<rect x=\"") && line.find("height=\"16.00\"") != std::string::npos)
        widths.push_back(std::stod(line.substr(at + 8)));
    }
    REQUIRE(widths.size() == cost.kernels.size() + 1);
    const double whole = *std::ranges::max_element(widths);
    const double per_ms = whole / std::max(longest, replaced);
    std::vector<double> want = {replaced * per_ms};
    for (const TimedKernel& kernel : cost.kernels)
      want.push_back(std::max(0.5, kernel.ms * per_ms));
    std::ranges::sort(want);
    std::ranges::sort(widths);
    for (std::size_t bar = 0; bar < want.size(); ++bar)
      CHECK(std::abs(want[bar] - widths[bar]) < 0.011);
    CHECK(whole > 300);
  }
}

/// The places and the lengths of a bar chart's small labels: where they begin, and their letters.
std::vector<std::pair<double, std::string>> small_labels(const std::string& svg) {
  std::vector<std::pair<double, std::string>> labels;
  std::istringstream lines(svg);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("<text x=\"") || line.find("anchor=\"start\"") == std::string::npos)
      continue;
    if (line.find("font-size=\"10\"") == std::string::npos) continue;
    const std::size_t begin = line.find('>') + 1;
    labels.emplace_back(std::stod(line.substr(9)), line.substr(begin, line.rfind('<') - begin));
  }
  return labels;
}

/// The height at which a bar chart has a line of text.
double height_of(const std::string& svg, const std::string& text) {
  const std::size_t at = svg.find(text);
  REQUIRE(at != std::string::npos);
  return std::stod(svg.substr(svg.find(" y=\"", svg.rfind("<text", at)) + 4));
}

TEST_CASE("labels of bars end within the picture, and say what a replacement is part of") {
  const Transformer model = test::model_at("llama3-8b", 4096, 1);
  const BlockCost cost = cost_of(model, {.machine = test::toy_machine()});
  for (const double factor : {0.001, 0.3, 1.0, 1000.0}) {
    const Replacement after =
        replace(cost.total_ms, cost.attention_backward_ms, factor * cost.attention_backward_ms);
    const Settled settled{.clock = 0.5, .total_ms = 77.125, .block_speedup = 1.625};
    const std::string svg = bars_svg("title", cost, after, settled);
    std::string replaced;
    for (const auto& [x, label] : small_labels(svg)) {
      CHECK(x + 5.6 * double(label.size()) < 760);  // of a letter of 10 pixels, as digits are
      if (label.find("then") != std::string::npos) replaced = label;
    }
    std::ostringstream want;
    want << std::fixed << std::setprecision(3) << after.attention_backward_ms << " ms, "
         << std::setprecision(1) << 100 * after.attention_backward_ms / after.total_ms << " % then";
    CHECK(replaced == want.str());
    CHECK(height_of(svg, ">at its own clock 77.125 ms: 1.625 times as fast<") -
              height_of(svg, ">block ") >
          12);  // under the other line, not over it
    CHECK_THAT(bars_svg("title", cost, after, Settled{.clock = cost.clock}),
               !Catch::Contains("own clock"));
  }
}

TEST_CASE("a model need not say where its numbers are from") {
  std::string text = find_builtin(builtin_models(), "llama3-8b");
  const std::size_t begin = text.find("\"source\"");
  REQUIRE(begin != std::string::npos);
  const std::size_t end = text.find('"', text.find(':', begin) + 3) + 1;
  const std::size_t comma = text.rfind(',', begin);
  text.erase(comma, end - comma);
  CHECK(read_transformer(text, "m.json").source.empty());
  CHECK_FALSE(test::builtin_model("llama3-8b").source.empty());
  const Transformer bare = read_transformer(
      R"({"schema": "stagger.model/1", "name": "x", "hidden": 64, "heads": 4, "heads_kv": 2,
          "head_dim": 16, "ffn": 128, "activation": "gelu", "rope": false, "attention": "full"})",
      "x.json");
  CHECK(bare.batch == 1);
  CHECK(bare.seq == 0);
  CHECK(bare.window == 0);
  CHECK(test::builtin_model("llama3-8b").uncertain.empty());
  CHECK_FALSE(test::builtin_model("llada-1b").uncertain.empty());
}

TEST_CASE("a model's file is read strictly") {
  const std::string good = find_builtin(builtin_models(), "mixtral-8x7b");
  const auto refused = [&](const std::string& from, const std::string& to) {
    const std::string text = test::replaced(good, from, to);
    return test::message_of([&] { static_cast<void>(read_transformer(text, "m.json")); },
                            ErrorKind::invalid_input);
  };
  CHECK_THAT(refused("\"hidden\": 4096", "\"hidden\": 4096, \"depth\": 3"),
             Catch::Contains("unknown key 'depth'"));
  CHECK_THAT(refused("\"hidden\": 4096", "\"hidden\": 0"), Catch::Contains("/hidden"));
  CHECK_THAT(refused("\"active\": 2", "\"active\": 9"), Catch::Contains("more experts are active"));
  CHECK_THAT(refused("\"heads_kv\": 8", "\"heads_kv\": 5"), Catch::Contains("do not divide"));
  CHECK_THAT(refused("swiglu", "relu"), Catch::Contains("/activation"));
  CHECK_THAT(refused("causal", "sliding"), Catch::Contains("a window is missing"));
  CHECK_THAT(refused("\"causal\"", "\"causal\", \"window\": 9"),
             Catch::Contains("a window of 9 is given, and attention is causal, not sliding"));
  CHECK_THAT(refused("\"causal\"", "\"full\", \"window\": 9"),
             Catch::Contains("attention is full, not sliding"));
  CHECK_THAT(refused("stagger.model/1", "stagger.model/2"), Catch::Contains("unknown schema"));
}

TEST_CASE("sizes from outside end in a message and not in an overflow") {
  Transformer model = test::builtin_model("llama3-8b");
  model.seq = std::int64_t{1} << 26;
  model.batch = std::int64_t{1} << 26;
  CHECK_THAT(test::message_of([&] { static_cast<void>(kernels_of(model)); }, ErrorKind::limit),
             Catch::Contains("more than 2^58"));
}

}  // namespace
}  // namespace stagger::block
