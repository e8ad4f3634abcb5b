// Blocks and dropout beside GEMMs, kept in tests/golden: the pictures, every kernel of every model
// with its work and its time, what is predicted of many shapes, and which numbers files may have.

#include "core/error.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/golden.hpp"
#include "tests/support/refusal.hpp"
#include "workbench/block/bars.hpp"
#include "workbench/block/cost.hpp"
#include "workbench/block/kernels.hpp"
#include "workbench/block/overlap.hpp"
#include "workbench/block/streams.hpp"
#include "workbench/block/sweep.hpp"
#include "workbench/block/transformer.hpp"

#include <algorithm>
#include <iomanip>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace stagger::block {
namespace {

Calibration calibration_of(const char* name) {
  const char* text = find_builtin(builtin_calibrations(), name);
  REQUIRE(text != nullptr);
  return read_calibration(text, name);
}

Transformer model_of(const char* name, std::int64_t seq, std::int64_t batch) {
  const char* text = find_builtin(builtin_models(), name);
  REQUIRE(text != nullptr);
  return with(read_transformer(text, name), {.seq = seq, .batch = batch});
}

Machine plain_machine() {
  return {.name = "plain",
          .device = "Plain 1",
          .driver = "",
          .sms = 8,
          .blocks = {BlockRates{
              .gemm_tflops = 100,
              .copy = {{.size = 1 << 20, .rate = 0.5}, {.size = 1 << 28, .rate = 2}},
              .kappas = {{.ops = Ops::eager, .permille = 2300},
                         {.ops = Ops::compiled, .permille = 1500}},
              .attention = {{"a", 128, true, 4096, 50, 40}, {"a", 128, true, 16384, 60, 44}}}}};
}

TEST_CASE("pictures of blocks, of both ways of dropout and of sweeps are as kept") {
  std::ostringstream text;
  const BlockCost cost = cost_of(model_of("mixtral-8x7b", 4096, 2), {.machine = plain_machine()});
  text << bars_svg("a <block>", cost, std::nullopt)
       << bars_svg(
              "replaced", cost,
              replace(cost.total_ms, cost.attention_backward_ms, 0.6 * cost.attention_backward_ms));
  const Calibration calibration = calibration_of("h200-fa2");
  for (const std::int64_t seq : {4'096, 65'536}) {  // bits hidden behind the GEMMs, and not
    const std::vector<Stream> streams =
        streams_of(overlap_of({.heads = 32, .seq = seq}, {}, calibration, false));
    text << streams_svg("two & three", streams) << streams_tikz(streams)
         << streams_text(streams, 80, false) << streams_text(streams, 61, true)
         << streams_text(streams, 5, true) << streams_trace("a trace", streams);
  }
  text << sweep_svg("a sweep", {.first_seq = 1'024, .last_seq = 3'000, .heads = {8, 96}}, {}, {},
                    calibration_of("paper"), false)
       << sweep_svg("one", {.first_seq = 2'048, .last_seq = 2'048, .heads = {48}}, {}, {},
                    calibration, true);
  CHECK(test::golden_difference("block-pictures.txt", text.str()) == "");
}

TEST_CASE("kernels of every model, and what they take, are as kept") {
  std::ostringstream text;
  text << std::setprecision(9);
  for (const BuiltinFile& file : builtin_models()) {
    const Transformer model = model_of(file.name, 4'096, 2);
    text << file.name << ": " << describe(model) << ", " << active_parameters(model) << " active, "
         << layers_of(model) << "\n";
    for (const std::int64_t tp : {1, 2}) {
      text << test::said([&] {
        std::ostringstream kernels;
        for (const Kernel& kernel : kernels_of(model, tp)) {
          kernels << "  " << kernel.name << " " << kPassNames[static_cast<int>(kernel.pass)] << " "
                  << static_cast<int>(kernel.work) << ": " << kernel.launches << " launches, "
                  << kernel.flops << " FLOPs, " << kernel.bytes << " bytes\n";
        }
        kernels << "  " << reduced_bytes(model, tp) << " bytes reduced\n";
        return kernels.str();
      }) << "\n";
    }
  }
  for (const std::optional<Ops> ops : {std::optional<Ops>(), std::optional(Ops::compiled)}) {
    for (const std::optional<double> block_ms : {std::optional<double>(), std::optional(80.0)}) {
      const BlockCost cost =
          cost_of(model_of("llama3-8b", 8'192, 1),
                  {.machine = plain_machine(), .ops = ops, .tp = 2, .block_ms = block_ms});
      text << name(cost.ops.value()) << " " << cost.kappa << " " << cost.attention << ": "
           << cost.kernels_ms << " of " << cost.total_ms << " ms, " << cost.attention_backward_ms
           << ", " << most_speedup(cost.fraction()) << " at most\n";
      for (const TimedKernel& kernel : cost.kernels) {
        text << "  " << kernel.kernel.name << " " << kernel.ms << " by "
             << kBoundNames[static_cast<int>(kernel.bound_by)] << "\n";
      }
    }
  }
  CHECK(test::golden_difference("block-kernels.txt", text.str()) == "");
}

std::string words_of(const Overlap& overlap) {
  std::ostringstream text;
  text << std::setprecision(9) << overlap.elements << " elements, " << overlap.mask_bytes
       << " bytes; GEMMs " << overlap.gemm.ms << " by " << overlap.gemm.by << ", attention "
       << overlap.attention.ms << " by " << overlap.attention.by << ", RNG " << overlap.rng_alone.ms
       << " by " << overlap.rng_alone.by << ", fused " << overlap.fused_ms << "; "
       << overlap.ways.gemm_slowed << " " << overlap.ways.rng_slowed << " "
       << overlap.ways.rng_exposed << " " << overlap.ways.attention_dropping << "; "
       << overlap.baseline_ms << " to " << overlap.overlap_ms << ", x " << overlap.x << " region "
       << overlap.region;
  if (const auto& back = overlap.backward) {
    text << "; back " << back->gemm_ms << " " << back->attention_ms << " " << back->fused_ms << " "
         << back->dropping_ms;
  }
  return text.str();
}

TEST_CASE("what is predicted of dropout beside GEMMs is as kept") {
  std::ostringstream text;
  text << std::setprecision(9);
  for (const BuiltinFile& file : builtin_calibrations()) {
    const Calibration calibration = calibration_of(file.name);
    for (const RngChoice rng : {RngChoice{}, RngChoice{.rounds = 10, .bits = 8},
                                RngChoice{.rounds = 7, .bits = 32}, RngChoice{.rounds = 3}}) {
      text << file.name << " " << rng.rounds << " rounds, " << rng.bits
           << " bits: " << test::said([&] {
                std::ostringstream said;
                said << std::setprecision(9);
                const Ratios ratios = ratios_of(calibration, rng, 64);
                const Borders at = borders_of(ratios, calibration.slowdown);
                said << ratios.alpha << " " << ratios.beta << " " << ratios.phi << "; "
                     << at.region2 << " " << at.region3 << " " << at.exposed << " "
                     << at.break_even.value_or(-1) << "; " << at.peak_speedup << " at "
                     << at.peak_x.value_or(-1) << "\n";
                const DropoutShape small{.heads = 1, .seq = 512, .head_dim = 32};
                said << "  " << words_of(overlap_of(small, rng, calibration, true)) << "\n";
                for (const std::int64_t seq : {256, 4'096, 50'000}) {
                  for (const bool both : {false, true}) {
                    const DropoutShape shape{.batch = 2, .heads = 24, .seq = seq, .head_dim = 64};
                    said << "  " << words_of(overlap_of(shape, rng, calibration, both)) << "\n";
                  }
                }
                return said.str();
              })
           << "\n";
    }
    for (const CtaSize& gemm : calibration.gemms) {
      text << file.name << " beside " << gemm.name << ": " << test::said([&] {
        const Room room = room_of(calibration.sm, gemm, calibration.rng_kernel.value());
        return std::to_string(room.registers) + " registers, " + std::to_string(room.shared_bytes) +
               " bytes, " + std::to_string(room.ctas) + " CTAs";
      }) << "\n";
    }
    for (const std::int64_t threads : {31, 32, 33, 100, 256, 1'024}) {
      const CtaSize kernel{.name = "", .threads = threads, .registers = 37, .shared_bytes = 40'000};
      text << threads << " threads: " << resident_ctas(calibration.sm, kernel) << " resident\n";
    }
  }
  CHECK(test::golden_difference("block-overlaps.txt", text.str()) == "");
}

/// Which of many numbers a file may have in the place of each of its own, and the first refusal.
template <class Read>
std::string numbers_taken(const std::string& file, Read read) {
  constexpr const char* kNumbers[] = {
      "-1",       "0",        "1e-10",    "1e-9",       "0.5",     "0.999",   "1",
      "2",        "8",        "9",        "64",         "65",      "255",     "256",
      "1024",     "1025",     "4096",     "4097",       "1048576", "1048577", "16777216",
      "16777217", "67108864", "67108865", "1000000000", "1e9",     "1.001e9"};
  std::ostringstream text;
  std::size_t end = 0;
  for (std::size_t place = 0; (place = file.find_first_of("0123456789", end)) < file.size();) {
    end = std::min(file.find_first_not_of("0123456789.", place), file.size());
    const std::size_t before = file.find_last_not_of(' ', place - 1);
    if (std::string_view(":,[").find(file[before]) == std::string_view::npos) continue;  // in words
    const std::size_t begin = file.find_last_of(",{[\n", before - 1) + 1;
    text << file.substr(begin, end - begin) << ":";
    std::string first;
    for (const char* number : kNumbers) {
      std::string changed = file;
      changed.replace(place, end - place, number);
      const std::string said = test::said([&] {
        read(changed);
        return std::string();
      });
      if (said.empty()) text << " " << number;
      if (first.empty()) first = said;
    }
    text << "; " << first << "\n";
  }
  return text.str();
}

TEST_CASE("numbers that models and calibrations may have are as kept") {
  std::string text;
  for (const char* name : {"mixtral-8x7b", "mistral-7b"}) {
    text += numbers_taken(find_builtin(builtin_models(), name), [](const std::string& changed) {
      static_cast<void>(read_transformer(changed, "m"));
    });
  }
  text += numbers_taken(
      find_builtin(builtin_calibrations(), "h200-fa2"),
      [](const std::string& changed) { static_cast<void>(read_calibration(changed, "c")); });
  CHECK(test::golden_difference("block-numbers.txt", text) == "");
}

}  // namespace
}  // namespace stagger::block
