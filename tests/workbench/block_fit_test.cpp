#include "workbench/block/block_fit.hpp"

#include "core/error.hpp"
#include "tests/support/blocks.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/refusal.hpp"
#include "workbench/block/cost.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace stagger::block {
namespace {

std::map<std::pair<std::string, Pass>, std::int64_t> moved(const Transformer& model, Norms norms) {
  std::map<std::pair<std::string, Pass>, std::int64_t> bytes;
  for (const Kernel& kernel : kernels_of(model)) {
    if (kernel.work != Work::elementwise) continue;
    for (const Operation& each : operations_of(model, kernel, norms))
      bytes[{kernel.name, kernel.pass}] += each.launches * each.bytes;
  }
  return bytes;
}

TEST_CASE("eager operations move the bytes of their operands and results") {
  const Transformer model = test::model_at("mixtral-8x7b", 4096, 2);
  const std::int64_t tokens = 8192;
  const std::int64_t hidden = tokens * 4096;
  const std::int64_t heads = tokens * (32 + 8) * 128;
  const std::int64_t packed = tokens * (32 + 2 * 8) * 128;
  const std::int64_t ffn = tokens * 2 * 14336;
  // Two norms in fp32: widen 6, square 8, mean 4, scale 8, narrow 6, weigh 4; two residuals of 6.
  auto bytes = moved(model, Norms::fp32);
  CHECK(bytes.at({"norms and residuals", Pass::forward}) == (2 * 36 + 2 * 6) * hidden);
  CHECK(bytes.at({"norms and residuals", Pass::backward}) == (2 * 92 + 2 * 6) * hidden);
  CHECK(bytes.at({"rope", Pass::forward}) == 20 * heads);
  CHECK(bytes.at({"rope", Pass::backward}) == 20 * heads + 4 * packed);
  CHECK(bytes.at({"activation", Pass::forward}) == 10 * ffn);
  CHECK(bytes.at({"activation", Pass::backward}) == 26 * ffn);
  bytes = moved(model, Norms::fused);
  CHECK(bytes.at({"norms and residuals", Pass::forward}) == (2 * 4 + 2 * 6) * hidden);
  CHECK(bytes.at({"norms and residuals", Pass::backward}) == (2 * 10 + 2 * 6) * hidden);
}

TEST_CASE("eager operations move no less than the least of their kernel") {
  for (const BuiltinFile& file : builtin_models()) {
    Transformer model = test::model_at(file.name, 1024, 1);
    CAPTURE(file.name);
    for (const Norms norms : {Norms::fused, Norms::fp32}) {
      const auto bytes = moved(model, norms);
      for (const Kernel& kernel : kernels_of(model)) {
        if (kernel.work != Work::elementwise) continue;
        CAPTURE(kernel.name);
        CHECK(bytes.at({kernel.name, kernel.pass}) >= kernel.bytes);
      }
    }
    // A layer norm is one kernel however RMS norms are run.
    if (model.activation == Activation::gelu) {
      CHECK(moved(model, Norms::fused) == moved(model, Norms::fp32));
    }
  }
}

/// A device of which all rates are known, and no attention but one.
BlockRates known_rates() {
  return {.gemm_tflops = 640,
          .gemm_t0_ns = 12'000,
          .gemm_exposed_permille = 300,
          .copy = {{.size = 1e7, .rate = 2}, {.size = 1e9, .rate = 4}},
          .kappas = {{.ops = Ops::compiled, .layers = "swiglu", .permille = 1'600}},
          .operations = {.broadcast = 250, .strided = 350, .fused = 600},
          .throttle = {.above_tflops = 370, .ppm = 700},
          .attention = {{"a", 128, true, 4096, 500, 400, 64},
                        {"a", 128, true, 4096, 480, 380, 56},
                        {"a", 64, false, 4096, 450, 350, 152}}};
}

/// What a device of those rates takes for a block.
MeasuredBlock played(const Transformer& model, Ops ops) {
  CostRequest request{.machine = {.name = "known",
                                  .device = "K",
                                  .driver = "",
                                  .sms = 1,
                                  .blocks = {known_rates()}},
                      .ops = ops};
  if (ops == Ops::eager) request.norms = Norms::fp32;
  const BlockCost cost = cost_of(model, request);
  MeasuredBlock block{.model = model, .ops = ops, .attention = "a", .total_ms = cost.total_ms};
  double elementwise = 0;
  for (const TimedKernel& timed : cost.kernels) {
    if (ops == Ops::eager) block.within[{timed.kernel.name, timed.kernel.pass}] = timed.ms;
    if (timed.kernel.work == Work::elementwise) elementwise += timed.ms;
  }
  block.elementwise_ms = elementwise;
  return block;
}

MeasuredBlocks played_blocks() {
  MeasuredBlocks found{.device = "K",
                       .sms = 1,
                       .driver = "",
                       .date = "2026-01-02",
                       .load = Load::sustained,
                       .copy = known_rates().copy};
  for (const char* name : {"llama3-8b", "qwen2.5-7b", "mixtral-8x7b"})
    found.blocks.push_back(played(test::model_at(name, 4096, 2), Ops::eager));
  found.blocks.push_back(played(test::model_at("sd3.5-large", 4096, 4), Ops::eager));
  found.blocks.push_back(played(test::model_at("llama3-8b", 4096, 2), Ops::compiled));
  return found;
}

TEST_CASE("the rates of a device are found from the blocks that it ran") {
  const MeasuredBlocks measured = played_blocks();
  const BlockRates known = known_rates();
  const BlockRates rates = fitted_rates(measured);
  CHECK(rates.load == measured.load);
  CHECK(rates.gemm_tflops == known.gemm_tflops);
  CHECK(rates.gemm_t0_ns == known.gemm_t0_ns);
  CHECK(rates.gemm_exposed_permille == known.gemm_exposed_permille);
  CHECK(rates.throttle == known.throttle);
  CHECK(rates.copy == known.copy);
  CHECK(rates.date == "2026-01-02");
  CHECK(rates.operations == known.operations);
  CHECK(rates.attention == known.attention);
  CHECK(std::ranges::count(rates.kappas, known.kappas.front()) == 1);
  CHECK(rates.kappas.size() == 4);  // and eager ones of three kinds of layers
  const std::vector<FittedBlock> judged = judge_fit(measured, rates);
  REQUIRE(judged.size() == measured.blocks.size());
  for (std::size_t index = 0; index < judged.size(); ++index) {
    const MeasuredBlock& block = measured.blocks[index];
    CAPTURE(block.model.name, index);
    REQUIRE(judged[index].fitted_ms);
    CHECK(std::abs(FittedBlock::error(*judged[index].fitted_ms, block)) < 1e-6);
    // Nobody else has gelu, or is compiled.
    const bool alone = block.model.name == "sd3.5-large" || block.ops == Ops::compiled;
    REQUIRE(judged[index].held_out_ms.has_value() == !alone);
    if (alone) continue;
    CHECK(std::abs(FittedBlock::error(*judged[index].held_out_ms, block)) < 1e-6);
    // Nobody else has as many heads.
    CHECK(judged[index].attention_measured == (block.model.name == "qwen2.5-7b"));
  }
}

TEST_CASE("an eager block that lacks a kernel's time has no kappa") {
  const auto kappas = [](const MeasuredBlocks& measured) {
    std::ostringstream text;
    for (const Kappa& kappa : fitted_rates(measured).kappas)
      text << kOpsNames[static_cast<int>(kappa.ops.value())] << " " << kappa.layers.value() << " "
           << kappa.permille << "\n";
    return text.str();
  };
  MeasuredBlocks whole = played_blocks();
  std::swap(whole.blocks.front(), whole.blocks.back());
  MeasuredBlocks lacking = whole;
  REQUIRE(lacking.blocks.back().within.erase({"rope", Pass::forward}) == 1);
  MeasuredBlocks fewer = whole;
  fewer.blocks.pop_back();
  CHECK(kappas(lacking) == kappas(fewer));
  CHECK(kappas(whole) != kappas(fewer));
}

TEST_CASE("kernels within compiled blocks have no part in the rates of eager ones") {
  MeasuredBlocks measured = played_blocks();
  const BlockRates rates = fitted_rates(measured);
  MeasuredBlock& compiled = measured.blocks.back();
  REQUIRE(compiled.ops == Ops::compiled);
  for (const auto& [kernel, ms] : measured.blocks.front().within)
    compiled.within[kernel] = 5 * ms;
  const BlockRates again = fitted_rates(measured);
  CHECK(again.gemm_tflops == rates.gemm_tflops);
  CHECK(again.gemm_t0_ns == rates.gemm_t0_ns);
  CHECK(again.operations == rates.operations);
  CHECK(again.attention == rates.attention);
  CHECK(again.kappas == rates.kappas);
}

TEST_CASE("what is held out has no part in the rates that judge it") {
  MeasuredBlocks measured = played_blocks();
  MeasuredBlock& llama = measured.blocks[0];
  REQUIRE(llama.model.name == "llama3-8b");
  const double before = llama.total_ms;
  for (auto& [kernel, ms] : llama.within)
    ms *= 3;
  llama.total_ms *= 3;
  const std::vector<FittedBlock> judged = judge_fit(measured, fitted_rates(measured));
  // Mixtral has as many heads, by whose rates it is judged.
  CHECK_FALSE(judged[0].attention_measured);
  CHECK(std::abs(*judged[0].held_out_ms / before - 1) < 1e-6);
  CHECK(std::abs(*judged[2].held_out_ms / measured.blocks[2].total_ms - 1) > 0.05);
}

TEST_CASE("what ours takes alone and rested says how much higher the clock is there") {
  MeasuredBlocks measured = played_blocks();
  CHECK(fitted_rates(measured).throttle.rested_permille == 1000);
  // Two of three blocks' attention is ours, and 0.9 of what it takes at the full clock rested.
  const auto rested = [](const MeasuredBlock& block, double part) {
    const double tflops = gflops_of(kernels_of(block.model)) / block.total_ms;
    return part * known_rates().throttle.clock(tflops) *
           block.within.at({"attention", Pass::backward});
  };
  for (MeasuredBlock& block : measured.blocks) {
    if (block.ops == Ops::compiled) continue;
    block.attention = "stagger:auto";
    block.rested_ms = rested(block, 0.9);
  }
  CHECK(fitted_rates(measured).throttle.rested_permille == 900);
  // Those of others, which profiles know no phases of, say nothing.
  measured.blocks[0].attention = "cudnn";
  measured.blocks[0].rested_ms = rested(measured.blocks[0], 0.1);
  CHECK(fitted_rates(measured).throttle.rested_permille == 900);
  // A kernel that is the slower for having rested is none.
  for (MeasuredBlock& block : measured.blocks)
    if (block.rested_ms) *block.rested_ms *= 2;
  CHECK(fitted_rates(measured).throttle.rested_permille == 1000);
}

TEST_CASE("GEMMs that are slower where the block does more say how the clock falls") {
  MeasuredBlocks measured = played_blocks();
  REQUIRE(fitted_rates(measured).throttle.ppm == 700);
  // The same blocks, each with what its GEMMs took at the full clock.
  for (MeasuredBlock& block : measured.blocks) {
    for (const Kernel& kernel : kernels_of(block.model)) {
      if (kernel.work != Work::gemm || block.ops != Ops::eager) continue;
      const double bytes = static_cast<double>(kernel.bytes);
      const double copied = 1e-9 * bytes / rate_at(measured.copy, bytes);
      block.within.at({kernel.name, kernel.pass}) = 0.012 * static_cast<double>(kernel.launches) +
                                                    1e-9 * static_cast<double>(kernel.flops) / 640 +
                                                    0.3 * copied;
    }
  }
  const BlockRates rates = fitted_rates(measured);
  CHECK(rates.throttle == Throttle{});
  CHECK(rates.gemm_tflops == 640);
  CHECK(rates.gemm_t0_ns == 12'000);
  CHECK(rates.gemm_exposed_permille == 300);
}

TEST_CASE("a fit has no negative times") {
  MeasuredBlocks measured = played_blocks();
  // Faster the fewer FLOPs there are: a launch would take less than nothing.
  for (MeasuredBlock& block : measured.blocks) {
    for (const Kernel& kernel : kernels_of(block.model)) {
      if (kernel.work != Work::gemm || block.ops != Ops::eager) continue;
      const double gflops = 1e-9 * static_cast<double>(kernel.flops);
      block.within.at({kernel.name, kernel.pass}) = gflops / (900 - 0.02 * gflops);
    }
  }
  const BlockRates rates = fitted_rates(measured);
  CHECK(rates.gemm_tflops > 0);
  CHECK(rates.gemm_t0_ns >= 0);
  CHECK(rates.gemm_exposed_permille >= 0);
}

TEST_CASE("rates that cannot be are refused") {
  const auto refused = [](const MeasuredBlocks& measured) {
    return test::message_of([&] { static_cast<void>(fitted_rates(measured)); },
                            ErrorKind::invalid_input);
  };
  MeasuredBlocks measured = played_blocks();
  for (MeasuredBlock& block : measured.blocks)
    block.within[{"norms and residuals", Pass::backward}] = 1e-3;
  CHECK_THAT(refused(measured), Catch::Contains("less than the copies of their bytes"));
  measured = played_blocks();
  for (MeasuredBlock& block : measured.blocks)
    block.within.erase({"attention", Pass::forward});
  CHECK_THAT(refused(measured), Catch::Contains("attention is known in one pass alone"));
  measured = played_blocks();
  for (MeasuredBlock& block : measured.blocks)
    block.within.erase({"attention", Pass::backward});
  CHECK_THAT(refused(measured), Catch::Contains("attention is known in one pass alone"));
  for (MeasuredBlock& block : measured.blocks)
    block.within.clear();
  CHECK_THAT(refused(measured), Catch::Contains("times of GEMMs within them are not known"));
}

std::string recorded(const char* name = "block.json") {
  std::ifstream file(std::string(STAGGER_SOURCE_DIR) + "/gpu/results/" + name);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST_CASE("the blocks that were measured on an H200 and on an H100 are predicted") {
  const auto [name, device] = GENERATE(std::pair("block.json", "NVIDIA H200"),
                                       std::pair("block_h100.json", "NVIDIA H100 80GB HBM3"));
  const MeasuredBlocks measured = read_measured_blocks(recorded(name), name);
  CHECK(measured.device == device);
  CHECK(measured.driver == "13.0");
  const BlockRates rates = fitted_rates(measured);
  const std::vector<FittedBlock> judged = judge_fit(measured, rates);
  std::vector<double> fitted;
  std::vector<double> held_out;
  for (std::size_t index = 0; index < judged.size(); ++index) {
    const MeasuredBlock& block = measured.blocks[index];
    const auto error = [&](double ms) { return std::abs(FittedBlock::error(ms, block)); };
    if (judged[index].fitted_ms) fitted.push_back(error(*judged[index].fitted_ms));
    if (judged[index].held_out_ms) held_out.push_back(error(*judged[index].held_out_ms));
  }
  for (std::vector<double>* errors : {&fitted, &held_out}) {
    REQUIRE(errors->size() >= 30);
    std::ranges::sort(*errors);
    CHECK((*errors)[errors->size() / 2] < 0.02);
    CHECK((*errors)[errors->size() * 9 / 10] < 0.04);
    CHECK(errors->back() < 0.07);
  }
}

TEST_CASE("a document of blocks that is none says where") {
  const auto refused = [](const std::string& from, const std::string& to) {
    const std::string text = test::replaced(recorded(), from, to);
    return test::message_of([&] { static_cast<void>(read_measured_blocks(text, "b.json")); },
                            ErrorKind::invalid_input);
  };
  CHECK_THAT(refused("stagger.block-bench/1", "stagger.bench/1"), Catch::Contains("b.json"));
  CHECK_THAT(refused("\"model\": \"llama3-8b\"", "\"model\": \"llama9\""),
             Catch::Contains("no model is called llama9"));
  CHECK_THAT(refused("256000000", "56000000"), Catch::Contains("sizes must ascend"));
  CHECK_THAT(refused("\"ops\": \"eager\"", "\"ops\": \"lazy\""), Catch::Contains("lazy"));
  const auto driver = [](const char* number) {
    const std::string text = test::replaced(recorded(), "13000", number);
    return read_measured_blocks(text, "b.json").driver;
  };
  CHECK(driver("12990") == "12.99");
  CHECK(driver("12045") == "12.4");
  CHECK(read_measured_blocks(recorded(), "b.json").load == Load::burst);
  const std::string steady = test::replaced(recorded(), "\"burst\"", "\"sustained\"");
  CHECK(read_measured_blocks(steady, "b.json").load == Load::sustained);
  CHECK_THAT(refused("\"burst\"", "\"idle\""), Catch::Contains("unknown load 'idle'"));
  const std::string empty =
      R"({"schema": "stagger.block-bench/1", "device": "K", "sms": 1, "driver": 13000,
          "date": "2026", "copy_tbs": [[1, 1]], "cases": []})";
  CHECK_THAT(test::message_of([&] { static_cast<void>(read_measured_blocks(empty, "b.json")); },
                              ErrorKind::invalid_input),
             Catch::Contains("no block was timed"));
  const std::string unsaid = test::replaced(recorded(), "\"load\": \"burst\",", "");
  CHECK_FALSE(read_measured_blocks(unsaid, "b.json").load.has_value());
}

}  // namespace
}  // namespace stagger::block
